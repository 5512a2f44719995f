"""Lengths of time as people and Slurm write them: one grammar, two readers, one writer.

Slurm's forms, read as Slurm reads them (`time_str2secs`): `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
`days-hours`, `days-hours:minutes`, `days-hours:minutes:seconds`. Suffix forms: `90s`, `5m`, `1h30m`, `1.5h`,
`7d`, `2w3d`, units from large to small.
"""

from __future__ import annotations

import math
import re

from slurmfair.errors import BadRecord

GRAMMAR = "90s, 5m, 1h30m, 7d, 2w, or Slurm's forms 10 (minutes), 4:00, 1:00:00, 2-12, 3-0:00, 7-00:00:00"
LONGEST_S = 1e11  # about 3,000 years: more is a slip of the pen, and would overflow sums

_UNITS_S = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_SUFFIXED = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in _UNITS_S), re.ASCII)
_SLURM = re.compile(r"(?:(\d{1,12})-)?(\d{1,12})(?::(\d{1,12}))?(?::(\d{1,12}))?", re.ASCII)
_NO_LENGTH = frozenset({"", "-1", "infinite", "unlimited", "none", "partition_limit"})


def accounting_seconds(text: str) -> float | None:
    """Return the seconds of a time from squeue, sacct or scontrol; None where Slurm means no bound or no value.

    Raises BadRecord for anything that is not a time.
    """
    word = text.strip()
    if word.lower() in _NO_LENGTH:
        return None
    seconds = _seconds(word)
    if seconds is None:
        raise BadRecord(f"{text[:40]!r} is not a length of time")
    return seconds


def policy_seconds(text: str) -> float:
    """Return the seconds of a time in the policy; "no bound" is not a length there.

    Raises ValueError with the reason and the way out.
    """
    if text.startswith("-"):
        raise ValueError("a length of time cannot be negative")
    if text.lower() in _NO_LENGTH:
        raise ValueError(f"{text or 'nothing'} is no length of time; write {GRAMMAR}")
    seconds = _seconds(text)
    if seconds is None:
        raise ValueError(f"{text[:40]!r} is not a length of time; write {GRAMMAR}")
    if seconds > LONGEST_S:
        raise ValueError(f"{text[:40]} is longer than 3,000 years")
    return seconds


def slurm_time(seconds: float) -> str:
    """Return `[days-]HH:MM:SS` as squeue prints it, rounded down to whole seconds; infinity is UNLIMITED."""
    if math.isinf(seconds):
        return "UNLIMITED"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


def policy_time(seconds: float) -> str:
    """Return a text that `policy_seconds` reads back exactly: Slurm's form where the seconds are whole."""
    return slurm_time(seconds) if seconds == int(seconds) else f"{seconds:.9f}".rstrip("0") + "s"


def _seconds(text: str) -> float | None:
    if found := _SLURM.fullmatch(text):
        return float(_slurm_seconds(*found.groups()))
    found = _SUFFIXED.fullmatch(text)
    if found is None or not text:
        return None
    parts = zip(found.groups(), _UNITS_S.values(), strict=True)
    return sum(float(number) * unit_s for number, unit_s in parts if number is not None)


def _slurm_seconds(days: str | None, first: str, second: str | None, third: str | None) -> int:
    """Read the colon form: with days it begins at hours, with three parts too, else at minutes."""
    parts = [int(part) for part in (first, second, third) if part is not None]
    if days is None and len(parts) < 3:
        parts.insert(0, 0)
    hours, minutes, seconds = [*parts, 0, 0][:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
