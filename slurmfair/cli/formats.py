"""Output formats in Slurm's two dialects: "%.15i %9r" (sprio, squeue -o) and "JobID:.15,Quota:16" (squeue -O)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, Protocol, TypeVar

from slurmfair.cli.text import fitted
from slurmfair.errors import SlurmfairError

WIDEST = 1000
NAMED_WIDTH = 20  # of "Field" without a width, as in squeue -O
_PERCENT = re.compile(r"%(\.?)(\d{0,6})(.?)([^%]*)", re.DOTALL)
_NAMED = re.compile(r"\s*(\w+)\s*(?::(\.?)(\d{0,6})(.*))?", re.DOTALL)


class Headed(Protocol):
    @property
    def header(self) -> str: ...


F = TypeVar("F", bound=Headed)


@dataclass(frozen=True, slots=True)
class Cell(Generic[F]):
    """A field with its width (0 for as much as is needed), side and what stands behind it."""

    field: F
    width: int
    right: bool
    suffix: str


@dataclass(frozen=True, slots=True)
class Format(Generic[F]):
    """A line: what stands before the first field, and the fields."""

    prefix: str
    cells: tuple[Cell[F], ...]

    def header(self) -> str:
        return self.line([cell.field.header for cell in self.cells])

    def line(self, values: Sequence[str]) -> str:
        """Return one line; a value wider than its column is cut, as Slurm does."""
        pairs = zip(self.cells, values, strict=True)
        return self.prefix + "".join(
            fitted(text, cell.width, cell.right) + cell.suffix for cell, text in pairs
        )

    def lines(self, columns: Sequence[Sequence[object]]) -> Iterator[str]:
        """Return a line for each row of the columns; quick where all texts are plain ASCII."""
        pattern = self._pattern()
        for row in zip(*columns, strict=True):
            quick = pattern % row
            yield quick if quick.isascii() else self.line([str(value) for value in row])

    def _pattern(self) -> str:
        out = [self.prefix.replace("%", "%%")]
        for cell in self.cells:
            side = "" if cell.right else "-"
            out.append(f"%{side}{cell.width}.{cell.width}s" if cell.width else "%s")
            out.append(cell.suffix.replace("%", "%%"))
        return "".join(out)


def read_format(text: str, letters: Mapping[str, F], names: Mapping[str, F]) -> Format[F]:
    """Return the format of either dialect.

    Raises:
        SlurmfairError: a field is unknown, or a width out of bounds.
    """
    if "%" in text:
        return _percent(text, letters)
    return _by_name(text, names)


def _percent(text: str, letters: Mapping[str, F]) -> Format[F]:
    prefix, _, rest = text.partition("%")
    cells = []
    for dot, width, letter, suffix in _PERCENT.findall("%" + rest):
        if letter not in letters:
            raise SlurmfairError(f"Invalid job format specification: {letter!r}; {_some(letters)}")
        cells.append(Cell(letters[letter], _width(width), bool(dot), suffix))
    return Format(prefix, tuple(cells))


def _by_name(text: str, names: Mapping[str, F]) -> Format[F]:
    cells = []
    for part in text.split(","):
        found = _NAMED.fullmatch(part)
        name = found[1].lower() if found else part.strip().lower()
        if found is None or name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else "--helpformat lists the fields"
            raise SlurmfairError(f"Invalid job format specification: {part.strip()!r}; {hint}")
        _, dot, width, suffix = found.groups()
        cells.append(Cell(names[name], _width(width) if width else NAMED_WIDTH, bool(dot), suffix or ""))
    return Format("", tuple(cells))


def _width(text: str) -> int:
    width = int(text or 0)
    if width > WIDEST:
        raise SlurmfairError(f"Invalid field width: {width}; the widest column has {WIDEST}")
    return width


def _some(letters: Mapping[str, F]) -> str:
    return "valid are " + " ".join(sorted(letters, key=str.lower))
