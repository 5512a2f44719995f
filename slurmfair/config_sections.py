"""Reading one mapping of the policy file by its rows: unknown, missing, repeated and wrong keys are reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from slurmfair import yaml_lines as yl
from slurmfair.config import (
    Config,
    Cycle,
    FairShare,
    JobPriority,
    Pool,
    QueuePolicy,
    Quota,
    Ranks,
    Reports,
    Window,
)
from slurmfair.config_kinds import Mistake, Spot
from slurmfair.config_schema import Row
from slurmfair.problems import nearest

T = TypeVar("T", Cycle, Ranks, Reports, JobPriority, FairShare, Window, QueuePolicy, Quota, Pool, Config)

_NAME = re.compile(r"\w[\w-]{0,63}")
_RESERVED = ("self", "quotas")  # words that paths use themselves


@dataclass(slots=True)
class Values:
    """What a section of the file holds, by key; `lines` says where each key stands."""

    line: int
    found: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, *keys: str) -> int:
        """Return the line of the first of these keys that the file has, else of the section."""
        return next((self.lines[key] for key in keys if key in self.lines), self.line)


def fill(base: T, rows: Iterable[Row], values: Values) -> T:
    """Return `base` with every field that the section sets."""
    told = {row.field: values.found[row.key] for row in rows if row.field and row.key in values.found}
    return replace(base, **told) if told else base


def read_section(node: yl.Node, rows: tuple[Row, ...], spot: Spot) -> Values:
    """Return what a mapping of the file sets; report unknown, missing and wrong keys."""
    values = Values(node.line)
    if not _read_keys(node, rows, spot, "", values):
        return values
    if spot.overrides:
        _lay_over(rows, spot, values)
    for row in rows:
        if row.required and row.key not in values.lines:
            spot.report(node.line, f"{row.key} is missing; give {row.kind.says}")
    return values


def _lay_over(rows: tuple[Row, ...], spot: Spot, values: Values) -> None:
    for row in rows:
        told = spot.overrides.get(f"{spot.path}.{row.key}")
        if told is not None:
            _read_value(row, told, told.line, spot / row.key, values)


def _read_keys(node: yl.Node, rows: tuple[Row, ...], spot: Spot, prefix: str, values: Values) -> bool:
    """Read the keys of one mapping; return whether it is one."""
    if not isinstance(node, yl.Mapping):
        spot.report(node.line, f"not a mapping of keys; {nearest('', _names_below(rows, prefix))}")
        return False
    named = {name: row for row in rows for name in (row.key, *row.aliases)}
    for key, value in node.entries.items():
        line = node.key_lines[key]
        row = named.get(prefix + key)
        if row is None and any(name.startswith(f"{prefix}{key}.") for name in named):
            _read_keys(value, rows, spot / key, f"{prefix}{key}.", values)
        elif row is None:
            (spot / key).report(line, f"unknown key; {nearest(key, _names_below(rows, prefix))}")
        elif row.key in values.lines:
            (spot / key).report(
                line, f"already given in line {values.lines[row.key]} as {row.key}; remove one"
            )
        else:
            _read_value(row, value, line, spot / key, values)
    return True


def _names_below(rows: tuple[Row, ...], prefix: str) -> tuple[str, ...]:
    """Return the keys that may stand in a mapping, in the order of the rows."""
    names = (name for row in rows for name in (row.key, *row.aliases) if name.startswith(prefix))
    return tuple(dict.fromkeys(name[len(prefix) :].split(".")[0] for name in names))


def _read_value(row: Row, node: yl.Node, line: int, spot: Spot, values: Values) -> None:
    values.lines[row.key] = line
    try:
        values.found[row.key] = row.kind.read(node, spot)
    except Mistake as mistake:
        spot.report(line, str(mistake))


def read_named(node: yl.Node, what: str, spot: Spot) -> Iterator[tuple[str, yl.Node]]:
    """Yield name and node of each pool or quota of a mapping; report names that paths cannot hold."""
    if not isinstance(node, yl.Mapping) or not node.entries:
        spot.report(node.line, f"not a mapping of names to {what}s; write at least one {what}")
        return
    for name, value in node.entries.items():
        if _bad_name(name):
            reason = "not a usable name; use letters, digits, _ and -, at most 64, not self or quotas"
            (spot / name).report(node.key_lines[name], reason)
        yield name, value


def _bad_name(name: str) -> bool:
    return name in _RESERVED or not _NAME.fullmatch(name)
