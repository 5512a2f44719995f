"""Every mistake of a policy, collected so that all of them can be told at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import NoReturn

from slurmfair.errors import PolicyError

MOST = 2_000  # nobody reads further; a hostile file must not keep us busy
_LISTED = 30  # names that are listed where none is near
SHORT = 64  # characters of a name that are shown
_COMPARED_LENGTH, _COMPARED = (
    40,
    1_000,
)  # longer words, and more names, get no nearest name: comparing is slow


class Problems:
    """Mistakes and warnings found in one source, each with its line and key path.

    `told` names the places that are not lines of the source: overrides, under negative numbers.
    """

    def __init__(self, source: str, told: dict[int, str] | None = None) -> None:
        self.lines: set[int] = set()
        self._source = source
        self._told = told or {}
        self._mistakes: dict[tuple[int, str], None] = {}
        self._warnings: dict[tuple[int, str], None] = {}

    def add(self, line: int, path: str, reason: str) -> None:
        """Note a mistake; the same one again (an alias used twice) changes nothing.

        Raises PolicyError where there are too many to go on.
        """
        self.lines.add(line)
        self._mistakes[line, self._text(line, path, reason)] = None
        if len(self._mistakes) >= MOST:
            self._mistakes[1 << 62, f"{self._source}: stopped after {MOST:,} mistakes"] = None
            self.refuse()

    def warn(self, line: int, path: str, reason: str) -> None:
        """Note something that is allowed but probably not meant."""
        self._warnings[line, self._text(line, path, reason)] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings in the order of the lines."""
        return tuple(text for _, text in sorted(self._warnings, key=lambda noted: noted[0]))

    def raise_any(self) -> None:
        """Raise PolicyError with all mistakes in the order of the lines, if there are any."""
        if self._mistakes:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise PolicyError with all mistakes in the order of the lines."""
        raise PolicyError([text for _, text in sorted(self._mistakes, key=lambda noted: noted[0])])

    def _text(self, line: int, path: str, reason: str) -> str:
        place = self._told.get(line) or f"{self._source}:{line}"
        return ": ".join(part for part in (place, path, reason) if part)


def shortened(text: str) -> str:
    """Return a text that fits into a line, without control characters."""
    visible = text if text.isprintable() else repr(text)
    return visible if len(visible) <= SHORT else visible[: SHORT - 3] + "..."


def nearest(word: str, names: Iterable[str]) -> str:
    """Return the way out of an unknown name: the nearest valid one, or all of a few."""
    valid = tuple(names)
    near = _nearest(word, valid) if len(word) <= _COMPARED_LENGTH and len(valid) <= _COMPARED else None
    if near:
        return f"did you mean {near}?"
    if len(valid) == 1:
        return f"use {valid[0]}"
    return "use one of: " + ", ".join(valid[:_LISTED]) + (", ..." if len(valid) > _LISTED else "")


@lru_cache(maxsize=1024)
def _nearest(word: str, names: tuple[str, ...]) -> str | None:
    lowered = {name.lower(): name for name in names}
    inside = [name for name in lowered if len(word) > 2 and word.lower() in name]  # gpu in gres/gpu
    if len(inside) == 1:
        return lowered[inside[0]]
    found = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[found[0]] if found else None
