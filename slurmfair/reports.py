"""What the socket answers: who may see what, and the rows that were asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slurmfair.errors import SlurmfairError
from slurmfair.paths import Paths
from slurmfair.view import Column, View

Report = Callable[[View, "Caller", dict[str, Any], Paths], Any]


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
        return self.uid in (0, os.geteuid()) or self.name in view.about.get("operators", ())


def jobs(view: View, caller: Caller, request: dict[str, Any], paths: Paths) -> dict[str, Any]:
    """Return the asked rows as columns, and how many others there are that the caller may not see."""
    wanted = np.ones(len(view), dtype=np.bool_)
    ids = request.get("job_ids") or []
    if ids:
        near = np.asarray([int(number) for number in ids])
        wanted &= np.isin(view.jobs["job_id"], near) | np.isin(view.jobs["array_id"], near)
        wanted |= np.isin(view.jobs["het_id"], near)
    for name in ("user", "account", "partition", "quota"):
        if request.get(name):
            wanted &= _one_of(view, name, request[name])
    hidden = 0
    if not caller.sees_all(view):
        own = _one_of(view, "user", [caller.name])
        hidden = int(np.count_nonzero(wanted & ~own))
        wanted &= own
    rows = np.flatnonzero(wanted)
    return {
        "columns": {name: column[rows].tolist() for name, column in view.jobs.items()},
        "texts": view.texts,
        "hidden": hidden,
    }


def _one_of(view: View, column: str, names: list[str]) -> Column:
    asked = set(names)
    match = np.asarray([bool(asked & set(value.split(","))) for value in view.texts[column]] or [False])
    return match[view.jobs[column]]


def quotas(view: View, caller: Caller, request: dict[str, Any], paths: Paths) -> list[dict[str, Any]]:
    return view.quotas


def status(view: View, caller: Caller, request: dict[str, Any], paths: Paths) -> dict[str, Any]:
    return view.about


REPORTS: dict[str, Report] = {"jobs": jobs, "quotas": quotas, "status": status}
