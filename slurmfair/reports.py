"""What each caller may see of the published view, and the reports that programs ask for as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurmfair.errors import SlurmfairError
from slurmfair.model import Bools
from slurmfair.view import Column, View

Request = Mapping[str, Any]
Report = Callable[[View, Request], Iterator[str]]
NOBODY = -1
RIGHTS = ("operators", "coordinated")  # keys of View.about that are told to nobody


class NotAllowed(SlurmfairError):
    """The caller may not do that."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the kernel says."""

    uid: int
    name: str

    def sees_all(self, view: View) -> bool:
        """PrivateData=jobs hides other users' jobs from all but operators, as Slurm does."""
        return not view.about.get("private_jobs") or self.is_operator(view)

    def is_operator(self, view: View) -> bool:
        """root, the daemon's account, and whom Slurm's accounting calls Operator or Administrator."""
        return self.uid in (0, os.geteuid()) or self.name in view.about.get("operators", ())

    def sees(self, view: View) -> Bools:
        """Tell which jobs he may see where others' are hidden: his own, and those of accounts that he coordinates."""
        accounts = set(view.about.get("coordinated", {}).get(self.name, ()))
        return _one_of(view, "user", {self.name} - {""}) | _one_of(view, "account", accounts)


def _one_of(view: View, column: str, wanted: set[str]) -> Bools:
    """Tell which jobs have one of these texts in a column, shape (n_jobs,)."""
    found = [text in wanted for text in view.texts[column]]
    return np.asarray(found or [False], dtype=np.bool_)[view.jobs[column]]


def visible(view: View, caller: Caller) -> View:
    """Return the part of the view that the caller may see: jobs in full that he sees, others as counts in quotas.

    `about["hidden"]` counts the jobs left out. What is left names no hidden job, user or account.
    """
    if caller.sees_all(view):
        return view
    rows = np.flatnonzero(caller.sees(view))
    jobs, texts = _restricted(view, rows)
    known = jobs["job_id"]
    jobs["blocker"] = np.where(np.isin(jobs["blocker"], known), jobs["blocker"], NOBODY)
    seen = set(known.tolist())
    quotas = [row | {"head": row["head"] if row["head"] in seen else NOBODY} for row in view.quotas]
    return View(_told(view.about) | {"hidden": len(view) - len(rows)}, jobs, texts, quotas)


def _told(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what anybody may know about the daemon: not who has which rights."""
    return {name: value for name, value in about.items() if name not in RIGHTS}


def _restricted(view: View, rows: Column) -> tuple[dict[str, Column], dict[str, list[str]]]:
    """Return the columns at some rows, with tables of texts that hold nothing but these rows' texts."""
    jobs = {name: column[rows] for name, column in view.jobs.items()}
    texts = {}
    for name, values in view.texts.items():
        used, jobs[name] = np.unique(jobs[name], return_inverse=True)
        texts[name] = [values[code] for code in used.tolist()]
    return jobs, texts


def jobs(view: View, request: Request) -> Iterator[str]:
    """Return the jobs as columns, texts as codes into `texts`.

    `columns` of the request picks some of them, `first` the jobs up to this position in their queues.
    """
    asked, first = request.get("columns"), request.get("first")
    names = [name for name in view.jobs if not asked or name in asked]
    chosen: Column | slice = slice(None)
    if isinstance(first, int):
        chosen = (view.jobs["position"] > 0) & (view.jobs["position"] <= first)
    yield '{"columns":{'
    for n, name in enumerate(names):
        yield ("," if n else "") + f"{json.dumps(name)}:{_dumped(view.jobs[name][chosen].tolist())}"
    texts = {name: values for name, values in view.texts.items() if name in names}
    yield f'}},"texts":{_dumped(texts)},"hidden":{int(view.about.get("hidden", 0))}}}'


def quotas(view: View, request: Request) -> Iterator[str]:
    """Return the rows of the quota trees (view.QUOTA_KEYS)."""
    yield _dumped(view.quotas)


def status(view: View, request: Request) -> Iterator[str]:
    """Return nothing of its own: every answer carries `about`."""
    yield "{}"


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def decisions(view: View, request: Request) -> Iterator[str]:
    """Return the decisions that were read from the state file, of jobs that the caller may see."""
    rows = request["rows"]
    if "hidden" in view.about:
        known = set(view.jobs["job_id"].tolist())
        rows = [row for row in rows if row[1] in known]
    yield _dumped(rows)


def history(view: View, request: Request) -> Iterator[str]:
    """Return the samples that were read from the record of shares; quotas are nobody's secret."""
    rows = request["rows"]
    yield "["
    for first in range(0, len(rows), 500):
        yield ("," if first else "") + _dumped(rows[first : first + 500])[1:-1]
    yield "]"


REPORTS: dict[str, Report] = {
    "jobs": jobs,
    "quotas": quotas,
    "status": status,
    "decisions": decisions,
    "history": history,
}


def answer(view: View, request: Request, age_s: float, away: str) -> Iterator[str]:
    """Return one JSON object in pieces: `age_s` of the data, why they are old, `about` the daemon, the `body`.

    Raises:
        SlurmfairError: there is no such report.
    """
    report = REPORTS.get(str(request.get("report")))
    if report is None:
        raise SlurmfairError(f"no such report; known are {', '.join(REPORTS)}")
    head = _dumped({"age_s": round(age_s, 3), "away": away, "about": _told(view.about)})
    yield head[:-1] + ',"body":'
    yield from report(view, request)
    yield "}\n"
