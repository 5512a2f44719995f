"""slurmfair explain: sentences about jobs."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from slurmfair.cli.job_ids import JobId, job_ids, rows_of
from slurmfair.cli.job_records import job_records
from slurmfair.cli.records import envelope, number
from slurmfair.cli.terms import VERSION, Asked, Parser, Reply, Say, note
from slurmfair.cli.text import clock
from slurmfair.explain import MOST, explain, unknown
from slurmfair.explain.terms import Explanation

NARROWEST, WIDEST = 40, 100


@cache
def parser() -> Parser:
    """Return the parser of `slurmfair explain`."""
    out = Parser(
        prog="slurmfair explain",
        description="Say why a job waits, behind whom and by which rule, and what has to happen.",
    )
    out.add_argument("jobs", nargs="+", metavar="JOB", help="job ids: 123, 123_4, 123_[4-9], 123+1")
    out.add_argument("--json", action="store_true", help="the same facts as JSON")
    out.add_argument("-V", "--version", action=Say, text=VERSION, help="show the version and end")
    return out


def parse(argv: list[str]) -> argparse.Namespace:
    given = parser().parse(argv)
    given.ids = job_ids(",".join(given.jobs))
    return given


def reply(asked: Asked) -> Reply:
    """Return the explanation of each job; exit status 1 if one is unknown or the data are old.

    Raises:
        SlurmfairError: a job id is not understood.
    """
    given = parse(list(asked.argv))
    found = [one for job in given.ids for one in _found(asked, job)]
    missing = any(one.code == "NOT_FOUND" for one in found)
    out = _as_json(asked, found) if given.json else _paragraphs(asked, found)
    return Reply(out, note(asked, "slurmfair explain"), code=1 if missing or asked.away else 0)


def _found(asked: Asked, job: JobId) -> list[Explanation]:
    found = explain(asked.view, job, clock(asked.environment.get("TZ", "")))
    private = not asked.caller.sees_all(asked.view)
    return found or [unknown(asked.view, str(job), private)]


def _paragraphs(asked: Asked, found: list[Explanation]) -> Iterator[str]:
    """Yield the sentences, wrapped on a terminal, one a line elsewhere."""
    width = max(NARROWEST, min(WIDEST, asked.width)) if asked.width else 0
    for n, one in enumerate(found):
        yield "\n" if n else ""
        bold, plain = ("\033[1m", "\033[0m") if asked.colour else ("", "")
        yield f"{bold}{_wrapped(one.headline, width, '')}{plain}\n"
        yield "".join(_wrapped(sentence.text, width, "  ") + "\n" for sentence in one.sentences)
    if len(found) == MOST:
        yield f"\nMore than {MOST} records: ask for single tasks, such as 123_4.\n"


def _wrapped(text: str, width: int, indent: str) -> str:
    if not width:
        return indent + text
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _as_json(asked: Asked, found: list[Explanation]) -> Iterator[str]:
    body = {"explanations": [_record(asked, one) for one in found], **envelope(asked, "slurmfair explain")}
    yield json.dumps(body, indent=2) + "\n"


def _record(asked: Asked, one: Explanation) -> dict[str, Any]:
    rows = np.flatnonzero(
        rows_of(asked.view, [JobId(one.job_id)]) & (asked.view.jobs["job_id"] == one.job_id)
    )
    return {
        "id": one.name,
        "code": one.code,
        "headline": one.headline,
        "sentences": [
            {"kind": sentence.kind.value, "text": sentence.text, "time": number(_set(sentence.at_s))}
            for sentence in one.sentences
        ],
        "waits_for": number(_set(one.waits_for)),
        "nodes": None if one.nodes is None else asdict(one.nodes),
        "job": next(iter(job_records(rows, asked)), None),
    }


def _set(value: int) -> int | None:
    return value if value >= 0 else None
