"""From a cycle to the view that people read; columns and rows as view.JOB_COLUMNS and view.QUOTA_KEYS say."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from slurmfair.apply import Applied
from slurmfair.cycle import Cycle, PoolCycle
from slurmfair.fairshare import scaled
from slurmfair.model import FOREVER_S, GPU, RESOURCES, UNSET_S, Coded, Ints, JobTable, Room
from slurmfair.standing import Standing
from slurmfair.view import PROMISED, Column, View

NONE = -1
TINY = 1e-9  # of a share: what rounding may leave


def make_view(cycle: Cycle, applied: Applied | None, about: dict[str, Any]) -> View:
    """Return what is published after a cycle: pending and running records of the managed partitions, rank first."""
    snapshot = cycle.snapshot
    jobs = snapshot.reading.jobs
    shown = np.flatnonzero((snapshot.pool_of >= 0) & (snapshot.standing != Standing.ENDED))
    columns, texts = _facts(jobs, shown)
    columns |= {
        "standing": _standing_after(cycle, applied)[shown],
        "base": snapshot.job_priority[shown],
        "tasks": snapshot.tasks[shown],
    }
    _add_places(cycle, shown, columns, texts)
    order = _in_order(columns)
    ordered = {name: column[order] for name, column in columns.items()}
    rows = [row for index in range(len(cycle.pools)) for row in _quota_rows(cycle, index)]
    return View(_about(cycle, applied, about), ordered, texts, rows)


def _standing_after(cycle: Cycle, applied: Applied | None) -> Ints:
    """Return each record's standing with what was just written, so that nobody reads "held" of a job let go."""
    standing = cycle.snapshot.standing.astype(np.int64)
    done = applied.done if applied else ()
    job_id = cycle.snapshot.reading.jobs.job_id
    waits = standing <= Standing.GATED
    standing[waits & np.isin(job_id, [change.job_id for change in done if change.hold])] = Standing.HELD
    standing[waits & np.isin(job_id, [change.job_id for change in done if change.release])] = Standing.OPEN
    return standing


def _facts(jobs: JobTable, rows: Ints) -> tuple[dict[str, Column], dict[str, list[str]]]:
    running = jobs.held_resources[rows].sum(axis=1) > 0
    amounts = np.where(running[:, None], jobs.held_resources[rows], jobs.wanted[rows])
    columns: dict[str, Column] = {
        "job_id": jobs.job_id[rows],
        "array_id": jobs.array_id[rows],
        "array_task": jobs.array_task[rows],
        "het_id": jobs.het_id[rows],
        "het_offset": np.where(jobs.het_id[rows] > 0, jobs.job_id[rows] - jobs.het_id[rows], NONE),
        "priority": jobs.priority[rows],
        "nice": jobs.nice[rows],
        "submit_s": jobs.submit_s[rows],
        "eligible_s": _or_none(jobs.eligible_s[rows]),
        "start_s": _or_none(jobs.start_s[rows]),
        "time_limit_s": np.minimum(jobs.time_limit_s[rows], FOREVER_S),
        "nodes": jobs.nodes_wanted[rows],
        "gpus": amounts[:, GPU],
        "cpus": amounts[:, 1],
        "mem_mib": amounts[:, 2],
        "dependent": jobs.dependent[rows].astype(np.int64),
        "begin_s": jobs.begin_s[rows],
    }
    texts: dict[str, list[str]] = {}
    for name in (
        "user",
        "account",
        "partition",
        "qos",
        "name",
        "task_list",
        "gpu_type",
        "reason",
        "reason_text",
    ):
        coded: Coded = getattr(jobs, name)
        columns[name], texts[name] = coded.codes[rows], list(coded.values)
    return columns, texts


def _or_none(times_s: Ints) -> Ints:
    return np.where(times_s > 0, times_s, NONE)


def _add_places(cycle: Cycle, shown: Ints, columns: dict[str, Column], texts: dict[str, list[str]]) -> None:
    """Add what the passes decided, scattered over the shown records."""
    n = len(cycle.snapshot.reading.jobs)
    whole = {name: np.full(n, NONE, dtype=np.int64) for name in ("outcome", "blocker", "room_s")}
    whole |= {name: np.zeros(n, dtype=np.int64) for name in ("position", "place", "reserved")}
    whole |= {"unplaced": np.zeros(n, dtype=np.int64), "node_classes": np.zeros(n, dtype=np.uint64)}
    whole["rank"] = cycle.rank.copy()
    for name in ("order_s", "waiting_s", "first_attempt_s"):
        whole[name] = np.full(n, UNSET_S, dtype=np.int64)
    effective = cycle.snapshot.job_priority.astype(np.float64)
    for pool in cycle.pools:
        entries, decision, queue = pool.snapshot.entries, pool.decision, pool.queue
        at, entry = entries.records, entries.entry_of
        blocker = np.where(decision.blocker >= 0, queue.entry_id[decision.blocker], NONE)
        for name, values in {
            "outcome": decision.outcome,
            "blocker": blocker,
            "position": decision.position,
            "place": pool.place + 1,
            "reserved": _reserved(pool),
            "room_s": decision.room_s,
            "unplaced": queue.unplaced,
            "node_classes": queue.classes,
            "order_s": queue.order_s,
            "waiting_s": queue.waiting_since_s,
            "first_attempt_s": decision.first_attempt_s,
        }.items():
            whole[name][at] = np.asarray(values)[entry]
        effective[at] = decision.effective[entry]
    columns |= {name: column[shown] for name, column in whole.items()}
    columns["effective"] = effective[shown]
    _add_quotas(cycle, shown, columns, texts)


def _reserved(pool: PoolCycle) -> Ints:
    """Return 1 for each entry that room is kept for, PROMISED where the pass before kept it already."""
    reserved, promised = pool.decision.reserved, pool.queue.promised
    return np.where(reserved, 1 if promised is None else np.where(promised, PROMISED, 1), 0)


def _add_quotas(cycle: Cycle, shown: Ints, columns: dict[str, Column], texts: dict[str, list[str]]) -> None:
    """Add pool, quota and policy as texts; the last text of each is the empty one, for unmanaged jobs."""
    pools = [pool.snapshot.pool for pool in cycle.pools]
    sizes = [len(pool.quotas) for pool in pools]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    pool_of, leaf_of = cycle.snapshot.pool_of[shown], cycle.snapshot.leaf_of[shown]
    managed = leaf_of >= 0
    last = int(start[-1])
    quota = np.where(managed, start[pool_of] + leaf_of, last)
    texts["pool"] = [pool.name for pool in pools] + [""]
    texts["quota"] = [quota.path for pool in pools for quota in pool.quotas] + [""]
    texts["policy"] = [quota.policy.name for pool in pools for quota in pool.quotas] + [""]
    columns["pool"] = np.where(pool_of >= 0, pool_of, len(pools)).astype(np.int64)
    columns["quota"], columns["policy"] = quota, quota


def _in_order(columns: dict[str, Column]) -> Ints:
    """Waiting jobs by place, then the other waiting ones by quota and position, then the running ones."""
    place, position = columns["place"], columns["position"]
    running = columns["standing"] >= Standing.RUNNING
    far = np.iinfo(np.int64).max
    return np.lexsort(
        (
            columns["job_id"],
            np.where(position > 0, position, far),
            columns["quota"],
            np.where(place > 0, place, far),
            columns["pool"],
            running,
        )
    )


def _quota_rows(cycle: Cycle, index: int) -> list[dict[str, Any]]:
    pool = cycle.pools[index]
    quotas = pool.snapshot.quotas
    heads = _heads(pool)
    pending = _pending(pool)
    rows = []
    for q, spec in enumerate(pool.snapshot.pool.quotas):
        parent = int(quotas.parent[q])
        rows.append(
            {
                "pool": pool.snapshot.pool.name,
                "quota": spec.path,
                "parent": quotas.path[parent] if parent >= 0 else "",
                "depth": _depth(quotas.parent, q),
                "leaf": spec.is_leaf,
                "policy": spec.policy.name,
                "policy_settings": dataclasses.asdict(spec.policy),
                "weight": spec.weight,
                "priority": spec.priority,
                "pending": int(pending[q]),
                "head": heads.get(q, NONE),
                "resource": RESOURCES[quotas.resources[0]],
                **_amounts(pool, q, 0),
                **{name: _number(values[q, 0]) for name, values in pool.shares.shown().items()},
                "by_resource": {RESOURCES[r]: _amounts(pool, q, i) for i, r in enumerate(quotas.resources)},
            }
        )
    return rows


def _amounts(pool: PoolCycle, q: int, r: int) -> dict[str, Any]:
    """Return the amounts of one quota in one divided resource."""
    quotas, shares = pool.snapshot.quotas, pool.shares
    allocated, deserved = float(pool.snapshot.allocated[q, r]), float(quotas.deserved[q, r])
    share = float(shares.fair_share[q, r])
    larger = max(share, deserved)
    return {
        "deserved": deserved,
        "limit": _number(quotas.limit[q, r]),
        "allocated": allocated,
        "over": max(0.0, allocated - deserved),
        "after_pass": float(pool.decision.allocated[q, r]),
        "demand": float(pool.request[q, r]),
        "usage": _number(shares.usage[q, r]),
        "fair_share": share,
        "ratio": allocated / larger if larger > 0 else None,
        "entitled": allocated + 1 <= share,
    }


def _number(value: float) -> float | None:
    """JSON knows no infinity."""
    return float(value) if np.isfinite(value) else None


def _depth(parent: Sequence[int] | Column, q: int) -> int:
    depth = 0
    while parent[q] >= 0:
        q, depth = int(parent[q]), depth + 1
    return depth


def _heads(pool: PoolCycle) -> dict[int, int]:
    first = np.flatnonzero(pool.decision.position == 1)
    return {int(pool.queue.leaf[row]): int(pool.queue.entry_id[row]) for row in first}


def _pending(pool: PoolCycle) -> Ints:
    quotas = pool.snapshot.quotas
    count = np.bincount(pool.queue.leaf, weights=pool.queue.tasks, minlength=len(quotas)).astype(np.int64)
    for child in range(len(quotas) - 1, -1, -1):
        if quotas.parent[child] >= 0:
            count[quotas.parent[child]] += count[child]
    return count


def _nodes(room: Room) -> list[dict[str, Any]]:
    """Return each kind of nodes: how many of those that take jobs have how much of the main resource free."""
    return [
        {
            "kind": name,
            "size": int(room.class_node_size[n]),
            "free": [[units, int(room.shape[n, units])] for units in np.flatnonzero(room.shape[n]).tolist()],
        }
        for n, name in enumerate(room.class_name)
    ]


def _short(pool: PoolCycle) -> list[tuple[str, float, float]]:
    """Return quotas whose shares exceed what there is: path, share, and what it comes to in proportion.

    Deserved amounts beyond the capacity are wanted: shares are not cut (decision 0007), but people must see it.
    """
    quotas, share = pool.snapshot.quotas, pool.shares.fair_share
    capacity = pool.snapshot.room.capacity[list(quotas.resources)].astype(np.float64)
    comes_to = scaled(quotas, share, capacity)[:, 0]
    cut = np.flatnonzero(comes_to < share[:, 0] - TINY)
    return [(quotas.path[row], float(share[row, 0]), float(comes_to[row])) for row in cut.tolist()]


def _about(cycle: Cycle, applied: Applied | None, about: dict[str, Any]) -> dict[str, Any]:
    reading = cycle.snapshot.reading
    return about | {
        "cluster": reading.cluster,
        "now_s": reading.now_s,
        "n_waiting": cycle.n_waiting,
        "changes": len(cycle.changes),
        "written": applied.sent if applied else 0,
        "left_over": cycle.left_over + (applied.put_off if applied else 0),
        "warnings": list(cycle.warnings),
        "degraded": list(cycle.degraded),
        "pools": [
            {
                "pool": pool.snapshot.pool.name,
                "partitions": list(pool.snapshot.pool.partitions),
                "resource": RESOURCES[pool.snapshot.quotas.resources[0]],
                "capacity": int(pool.snapshot.room.capacity[pool.snapshot.quotas.resources[0]]),
                "configured": int(pool.snapshot.room.configured[pool.snapshot.quotas.resources[0]]),
                "free": int(pool.snapshot.room.free[pool.snapshot.quotas.resources[0]]),
                "free_by_resource": dict(zip(RESOURCES, pool.snapshot.room.free.tolist(), strict=True)),
                "nodes": _nodes(pool.snapshot.room),
                "fairshare": dataclasses.asdict(pool.snapshot.pool.fairshare),
                "place_grace_s": pool.snapshot.pool.place_grace_s,
                "history_from_s": pool.shares.history_from_s,
                "capacity_from_s": pool.shares.capacity_from_s,
                "short": _short(pool),
            }
            for pool in cycle.pools
        ],
    }
