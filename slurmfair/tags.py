"""Our word in a job's admin_comment: what it says, and how it is put there beside foreign text (SLURM.md 2.4)."""

from __future__ import annotations

import re

GATE = "slurmfair:gate"  # held at submission by job_submit.lua
HOLD = "slurmfair:hold"  # held by us
FREE = "slurmfair:free"  # released by us

_OURS = re.compile(r"(?<!\S)slurmfair:(?:gate|hold|free)(?!\S)")


def tag_of(admin_comment: str) -> str:
    """Return our tag in the text, "" if there is none; of several the last one counts."""
    found = _OURS.findall(admin_comment)
    return found[-1] if found else ""


def tagged(admin_comment: str, tag: str) -> str:
    """Return the text with `tag` as our only word in it; foreign text stays as it is, before ours."""
    foreign = _OURS.sub("", admin_comment).strip()
    return f"{foreign} {tag}" if foreign else tag
