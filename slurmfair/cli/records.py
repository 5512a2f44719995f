"""JSON and YAML with Slurm's habits: numbers as {set, infinite, number}; meta, errors and warnings beside the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurmfair import __version__
from slurmfair.cli.terms import Asked
from slurmfair.cli.text import printable

Record = Mapping[str, Any]
ROWS_AT_A_TIME = 25  # made between two turns of the reporter's loop: about a millisecond


def number(value: float | None, infinite: bool = False) -> dict[str, Any]:
    """Return a number as Slurm's parsers write it; None is "not set"."""
    known = value is not None and not infinite
    return {"set": known, "infinite": infinite, "number": value if known else 0}


def meta(asked: Asked, command: str) -> dict[str, Any]:
    """Return who answered whom, and how old the decision is."""
    about = asked.view.about
    major, minor, micro = [*__version__.split("."), "0", "0"][:3]
    return {
        "plugin": {"type": "", "name": "", "data_parser": "slurmfair/v1"},
        "client": {"source": str(asked.paths.socket), "user": asked.caller.name, "group": ""},
        "command": [command, *asked.argv],
        "slurmfair": {
            "version": {"major": major, "minor": minor, "micro": micro},
            "release": __version__,
            "cluster": about.get("cluster", ""),
        },
        "decided": {
            "time": number(asked.now_s),
            "age_s": round(asked.age_s, 3),
            "away": asked.away,
            "hidden_jobs": about.get("hidden", 0),
        },
    }


def envelope(asked: Asked, command: str) -> dict[str, Any]:
    """Return what stands behind the rows of every answer."""
    warnings = [str(text) for text in asked.view.about.get("warnings", ())]
    if asked.away:
        warnings.insert(0, asked.away)
    return {
        "last_update": number(asked.now_s),
        "meta": meta(asked, command),
        "errors": [],
        "warnings": [{"description": text, "source": "slurmfaird"} for text in warnings],
    }


def as_json(key: str, rows: Iterable[Record], rest: Record) -> Iterator[str]:
    """Return the text of {key: [rows], ...rest}, a row a line, in pieces."""
    yield "{\n" + json.dumps(key) + ": ["
    lead = "\n"
    for piece in _pieces(rows):
        yield lead + ",\n".join(json.dumps(row) for row in piece)
        lead = ",\n"
    yield "\n]"
    for name, value in rest.items():
        yield f",\n{json.dumps(name)}: {json.dumps(value, indent=2)}"
    yield "\n}\n"


def as_yaml(key: str, rows: Iterable[Record], rest: Record) -> Iterator[str]:
    """Return the same as a YAML document."""
    yield f"---\n{key}:"
    empty = True
    for piece in _pieces(rows):
        empty = False
        yield "".join(_item(row, "") for row in piece)
    yield " []" if empty else ""
    yield "".join(f"\n{name}:{_yaml(value, '  ')}" for name, value in rest.items())
    yield "\n...\n"


def _pieces(rows: Iterable[Record]) -> Iterator[list[Record]]:
    piece: list[Record] = []
    for row in rows:
        piece.append(row)
        if len(piece) == ROWS_AT_A_TIME:
            yield piece
            piece = []
    if piece:
        yield piece


def _yaml(value: Any, indent: str) -> str:
    """Return a value behind its key: scalars are written as JSON, which YAML reads alike."""
    if isinstance(value, Mapping) and value:
        return "".join(f"\n{indent}{key}:{_yaml(one, indent + '  ')}" for key, one in value.items())
    if isinstance(value, (list, tuple)) and value:
        return "".join(_item(one, indent) for one in value)
    return " " + _scalar(value)


def _scalar(value: Any) -> str:
    """JSON writes letters beyond 16 bits as two halves, which YAML does not join."""
    if isinstance(value, str) and any(ord(letter) > 0xFFFF for letter in value):
        return json.dumps(printable(value), ensure_ascii=False)
    return json.dumps(value)


def _item(value: Any, indent: str) -> str:
    text = _yaml(value, indent + "  ")
    if isinstance(value, Mapping) and value:
        return f"\n{indent}- " + text[len(indent) + 3 :]
    return f"\n{indent}-{text}"
