"""Texts for a terminal: cells of exact width, whatever a job's name contains; times as Slurm writes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from unicodedata import combining, east_asian_width
from zoneinfo import ZoneInfo

from slurmfair.durations import slurm_time


def printable(text: str) -> str:
    """Return the text with a question mark for every character that would move the cursor or colour the screen."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def width_of(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if combining(letter):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def fitted(text: str, width: int, right: bool) -> str:
    """Return a text of exactly `width` columns, cut or filled up with blanks; 0 leaves it as it is."""
    if width == 0:
        return text
    if text.isascii():
        text = text[:width]
        return text.rjust(width) if right else text.ljust(width)
    kept, used = "", 0
    for letter in text:
        columns = _columns(letter)
        if used + columns > width:
            break
        kept, used = kept + letter, used + columns
    blanks = " " * (width - used)
    return blanks + kept if right else kept + blanks


def span(seconds: float) -> str:
    """Return a length of time as squeue prints it."""
    return slurm_time(max(0.0, seconds))


def words(seconds: float) -> str:
    """Return a length of time for a sentence: its two largest units, such as "2 h 5 min"."""
    left = max(0, round(seconds))
    if left < 1:
        return "less than a second" if seconds < 0.5 else "1 s"
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


Clock = Callable[[float], str]


@lru_cache(maxsize=64)
def clock(zone: str) -> Clock:
    """Return the writer of moments in the caller's time zone (TZ; this machine's by default), as Slurm writes them."""
    try:
        known = ZoneInfo(zone.removeprefix(":")) if zone else None
    except (ValueError, OSError, KeyError):
        known = None
    if known is None:
        return lambda at_s: time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s))
    from datetime import datetime

    return lambda at_s: datetime.fromtimestamp(at_s, known).strftime("%Y-%m-%dT%H:%M:%S")


def amount(value: float | None) -> str:
    """Return an amount of a resource without needless decimals; None is no limit."""
    if value is None:
        return "none"
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
