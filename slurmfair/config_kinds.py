"""What a value of the policy file may be: each kind reads a YAML node, and writes its value back.

A kind reads the text of the file itself, not YAML's idea of it: `no` is a fine name for an account, `1:00:00` an
hour, and neither is a number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slurmfair import yaml_lines as yl
from slurmfair.durations import GRAMMAR, policy_seconds, policy_time
from slurmfair.problems import Problems, nearest, shortened

_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off"}
_NUMBER = re.compile(r"[+-]?\d[\d_]{0,30}(\.\d{0,30})?([eE][+-]?\d{1,3})?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_][\w./@+-]*", re.ASCII)


class Mistake(Exception):
    """Why a value cannot be used, with the way out."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the tree of keys, where mistakes are reported.

    `overrides` are settings told at run time, by key path; they stand above the file's.
    """

    problems: Problems
    path: str = ""
    overrides: Mapping[str, yl.Node] = field(default_factory=dict)

    def __truediv__(self, key: str) -> Spot:
        """Return the spot of a key below; keys that do not fit into a line are cut."""
        path = f"{self.path}.{shortened(key)}" if self.path else shortened(key)
        return Spot(self.problems, path, self.overrides)

    def item(self, index: int) -> Spot:
        """Return the spot of an item of a list."""
        return Spot(self.problems, f"{self.path}[{index}]", self.overrides)

    def report(self, line: int, reason: str) -> None:
        """Note a mistake here."""
        self.problems.add(line, self.path, reason)

    def warn(self, line: int, reason: str) -> None:
        """Note a warning here."""
        self.problems.warn(line, self.path, reason)


@dataclass(frozen=True, slots=True)
class Kind:
    """`read` gives the value or raises Mistake; `show` writes YAML that `read` takes back; `says` is for people."""

    says: str
    read: Callable[[yl.Node, Spot], Any]
    show: Callable[[Any], str]


def in_quotes(text: str) -> str:
    """Return a text as YAML in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def quoted(text: str) -> str:
    """Return a text as YAML: as it is where nothing can be misread, else in double quotes."""
    plain = _PLAIN.fullmatch(text) and not yl.Scalar(text, True, 0).empty
    return text if plain else in_quotes(text)


def show_names(names: tuple[str, ...] | frozenset[str]) -> str:
    """Return names as a YAML list, those of a set in order."""
    ordered = sorted(names) if isinstance(names, frozenset) else names
    return "[" + ", ".join(quoted(name) for name in ordered) + "]"


def number_text(value: float) -> str:
    """Return a number without a needless fraction; infinity is -1, as a limit that is none."""
    if math.isinf(value):
        return "-1"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def scalar_text(node: yl.Node, wanted: str) -> str:
    """Return the text of a single value, or raise Mistake."""
    if not isinstance(node, yl.Scalar):
        given = "a list" if isinstance(node, yl.Sequence) else "a mapping"
        raise Mistake(f"{given} where {wanted} belongs")
    if node.empty:
        raise Mistake(f"no value; give {wanted}, or leave the key out")
    return node.text


def read_number(node: yl.Node, wanted: str) -> float:
    """Return a finite number written as one, or raise Mistake."""
    text = scalar_text(node, wanted)
    if isinstance(node, yl.Scalar) and not node.plain:
        raise Mistake(f"{shortened(text)!r} in quotes is text; give {wanted}, without quotes")
    if text.lower() in _TRUE | _FALSE:
        raise Mistake(f"{text} means true or false in YAML; give {wanted}")
    if not _NUMBER.fullmatch(text) or re.match(r"[+-]?0\d", text):
        raise Mistake(f"{shortened(text)!r} is not {wanted}; write digits only, without a unit")
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise Mistake(f"{shortened(text)} is too large")
    return value


def _in_range(value: float, least: float, most: float) -> None:
    if value < least:
        below = "negative" if value < 0 <= least else f"below {number_text(least)}"
        raise Mistake(f"{number_text(value)} is {below}; the least is {number_text(least)}")
    if value > most:
        raise Mistake(f"{number_text(value)} is above {number_text(most)}")


def number(least: float = 0.0, most: float = 1e12) -> Kind:
    """A finite number within bounds."""
    says = f"a number of at least {number_text(least)}"

    def read(node: yl.Node, spot: Spot) -> float:
        value = read_number(node, says)
        _in_range(value, least, most)
        return value

    return Kind(says, read, number_text)


def whole(least: int, most: int) -> Kind:
    """A whole number within bounds."""
    says = f"a whole number, {least:,} to {most:,}"

    def read(node: yl.Node, spot: Spot) -> int:
        value = read_number(node, says)
        if value != int(value):
            raise Mistake(f"{number_text(value)} is not {says}")
        _in_range(value, least, most)
        return int(value)

    return Kind(says, read, str)


def duration(positive: bool = False) -> Kind:
    """A length of time in seconds; `positive` refuses 0."""
    says = "a length of time above 0" if positive else "a length of time"

    def read(node: yl.Node, spot: Spot) -> float:
        text = scalar_text(node, f"{says} ({GRAMMAR})")
        try:
            seconds = policy_seconds(text)
        except ValueError as err:
            raise Mistake(str(err)) from err
        if positive and seconds == 0:
            raise Mistake("must be above 0")
        return seconds

    return Kind(says, read, policy_time)


def choice(*names: str, aliases: Mapping[str, str] | None = None) -> Kind:
    """One of a few words; aliases are read, never written."""
    meaning = dict(aliases or {}) | {name: name for name in names}

    def read(node: yl.Node, spot: Spot) -> str:
        text = scalar_text(node, "one of " + ", ".join(names))
        if text not in meaning:
            raise Mistake(f"unknown value {shortened(text)!r}; {nearest(text, names)}")
        return meaning[text]

    return Kind(" or ".join(f"`{name}`" for name in names), read, str)


def several(what: str, names: tuple[str, ...]) -> Kind:
    """One or more different words out of a few, in the order that the file gives."""
    one = choice(*names)

    def read(node: yl.Node, spot: Spot) -> tuple[str, ...]:
        items = node.items if isinstance(node, yl.Sequence) else (node,)
        found = tuple(one.read(item, spot) for item in items)
        if not found or len(set(found)) < len(found):
            raise Mistake(f"none, or one twice; list different {what} of: " + ", ".join(names))
        return found

    return Kind(f"one or a list of {one.says}", read, show_names)


def _read_truth(node: yl.Node, spot: Spot) -> bool:
    text = scalar_text(node, "true or false")
    if isinstance(node, yl.Scalar) and node.plain and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise Mistake(f"{shortened(text)!r} is neither true nor false")


def nodes(says: str) -> Kind:
    """A part of the tree that is read by code of its own."""
    return Kind(says, lambda node, spot: node, str)


TRUTH = Kind("true or false", _read_truth, lambda value: "true" if value else "false")
LEVEL = whole(1, 9)
