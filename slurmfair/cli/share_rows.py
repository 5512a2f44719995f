"""The rows of sfshare: pools, their quotas, and the users below them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from slurmfair.cli.records import number
from slurmfair.cli.terms import Asked, split
from slurmfair.errors import SlurmfairError
from slurmfair.explain.case import COLUMN_OF
from slurmfair.standing import holds_resources, waiting
from slurmfair.view import Column, View

Row = Mapping[str, Any]


def share_rows(asked: Asked, given: argparse.Namespace) -> Iterator[Row]:
    """Yield pools, their quotas and the users below them, as a tree."""
    chosen = _chosen(asked.view, split(given.accounts)) if given.accounts else None
    users = None if given.all else set(split(given.users)) if given.users else {asked.caller.name}
    held = _by_user(asked.view)
    for pool in asked.view.about["pools"]:
        mine = [row for row in asked.view.quotas if row["pool"] == pool["pool"]]
        if chosen is None and not given.only_users:
            yield _pool_row(pool, mine)
        for row in mine:
            if chosen is not None and (row["pool"], row["quota"]) not in chosen:
                continue
            if not given.only_users:
                yield {**row, "indent": row["depth"] + 1, "partitions": ",".join(pool["partitions"])}
            for name, amounts in sorted(held.get((row["pool"], row["quota"]), {}).items()):
                if users is None or name in users:
                    yield _user_row(row, name, amounts, pool)


def _chosen(view: View, names: Sequence[str]) -> set[tuple[str, str]]:
    """Return the quotas that are named by their path or its last part."""
    out = set()
    for name in names:
        found = {
            (row["pool"], row["quota"])
            for row in view.quotas
            if name in (row["quota"], row["quota"].rpartition(".")[2])
        }
        if not found:
            near = get_close_matches(name, [row["quota"] for row in view.quotas], n=1)
            hint = f"did you mean {near[0]}?" if near else "sfshare without -A lists them"
            raise SlurmfairError(f"no quota {name[:60]!r}; {hint}")
        out |= found
    return out


def _by_user(view: View) -> dict[tuple[str, str], dict[str, Row]]:
    """Return what each user holds and waits for in each quota, by (pool, quota) and user."""
    jobs, texts = view.jobs, view.texts
    sizes = [max(1, len(texts[name])) for name in ("pool", "quota", "user")]
    key = np.ravel_multi_index((jobs["pool"], jobs["quota"], jobs["user"]), sizes)
    groups, place = np.unique(key, return_inverse=True)
    amount_of = _main_amounts(view)
    waits = waiting(jobs["standing"])

    def summed(values: Column) -> list[float]:
        return np.bincount(place, weights=values, minlength=len(groups)).tolist()

    held = summed(np.where(holds_resources(jobs["standing"]), amount_of, 0))
    tasks = summed(np.where(waits, jobs["tasks"], 0))
    wanted = summed(np.where(waits, jobs["tasks"] * amount_of, 0))
    out: dict[tuple[str, str], dict[str, Row]] = {}
    for group, *amounts in zip(groups.tolist(), held, tasks, wanted, strict=True):
        pool, quota, user = np.unravel_index(group, sizes)
        mine = out.setdefault((texts["pool"][pool], texts["quota"][quota]), {})
        mine[texts["user"][user]] = {
            "allocated": amounts[0],
            "pending": int(amounts[1]),
            "demand": amounts[0] + amounts[2],
        }
    return out


def _main_amounts(view: View) -> Column:
    """Return what each job holds or wants of its pool's main resource."""
    main = {row["pool"]: COLUMN_OF[row["resource"]] for row in view.about["pools"]}
    out = np.zeros(len(view), dtype=np.int64)
    for code, pool in enumerate(view.texts["pool"]):
        if pool in main:
            mine = view.jobs["pool"] == code
            out[mine] = view.jobs[main[pool]][mine]
    return out


def _pool_row(pool: Row, quotas: Sequence[Row]) -> Row:
    tops = [row for row in quotas if row["depth"] == 0]
    sums = {
        name: sum(row[name] for row in tops)
        for name in ("deserved", "allocated", "over", "after_pass", "demand", "pending", "fair_share")
    }
    return {
        "pool": pool["pool"],
        "quota": "",
        "indent": 0,
        "limit": float(pool["capacity"]),
        "resource": pool["resource"],
        "partitions": ",".join(pool["partitions"]),
        **sums,
    }


def _user_row(quota: Row, name: str, amounts: Row, pool: Row) -> Row:
    return {
        "pool": quota["pool"],
        "quota": quota["quota"],
        "user": name,
        "indent": quota["depth"] + 1,
        "resource": quota["resource"],
        "partitions": ",".join(pool["partitions"]),
        **amounts,
    }


NUMBERS = (
    "deserved", "limit", "weight", "priority", "allocated", "over", "after_pass", "pending", "demand", "usage", "due", "corrected",
    "effective", "fair_share", "ratio",
)  # fmt: skip


def share_record(row: Row) -> dict[str, Any]:
    """Return a row for JSON and YAML: a pool has no quota, a user's row names the user."""
    head = row.get("head", -1)
    return {
        "pool": row["pool"],
        "quota": row["quota"],
        "parent": row.get("parent", ""),
        "user": row.get("user", ""),
        "leaf": row.get("leaf", False),
        "policy": row.get("policy", ""),
        "resource": row["resource"],
        **{name: _number(name, row) for name in NUMBERS},
        "entitled": bool(row.get("entitled", False)),
        "head": number(head if head >= 0 else None),
        "by_resource": [
            {"resource": name, **{key: _number(key, amounts) for key in amounts if key != "entitled"}}
            for name, amounts in row.get("by_resource", {}).items()
        ],
    }


def _number(name: str, row: Row) -> dict[str, Any]:
    """A quota without a limit has an infinite one; other amounts that are missing are not set."""
    return number(row.get(name), infinite=name == "limit" and name in row and row[name] is None)
