"""The one error of the lab."""

from __future__ import annotations


class LabError(Exception):
    """Names the culprit, the reason and the way out; printed without traceback."""

    def __init__(self, culprit: str, reason: str, way_out: str) -> None:
        super().__init__(f"{culprit}: {reason}; {way_out}")
        self.culprit = culprit
        self.reason = reason
        self.way_out = way_out
