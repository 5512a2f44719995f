"""Cases about division, usage and KAI's arithmetic: one check a case, AssertionError where we differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypedDict

import numpy as np

from slurmfair.config import FairShare, Window
from slurmfair.fairshare import divided
from slurmfair.ledger import Ledger, Rows, ledger_of
from slurmfair.model import GPU, RESOURCES, UNSET_S, Floats, Quotas
from slurmfair.runs import NO_PAUSES, Known
from slurmfair.steps import CAPACITY, Steps, steps_of
from slurmfair.usage import advance, allocated

TOLERANCE = 1e-9  # relative, as the case files ask
KAI_RESOURCES = ("gpu", "cpu", "memory")


class ShareQueue(TypedDict):
    id: str
    parent: str | None
    deserved: float
    limit: float
    weight: float
    priority: int
    request: float
    usage: float


class ShareCase(TypedDict):
    name: str
    capacity: float
    k: float
    queues: list[ShareQueue]
    expected: dict[str, float]


def close(a: float, b: float, least: float = 0.0) -> bool:
    """Tell whether two numbers agree within the tolerance, relative to the larger of them and `least`."""
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), least)


def parents_first(links: Sequence[tuple[str, str | None]]) -> list[int]:
    """Return the positions so that a parent stands before its children, otherwise as given."""
    at = {name: i for i, (name, _) in enumerate(links)}
    order: list[int] = []
    placed: set[str] = set()

    def place(i: int) -> None:
        name, parent = links[i]
        if name not in placed:
            if parent is not None:
                place(at[parent])
            placed.add(name)
            order.append(i)

    for i in range(len(links)):
        place(i)
    return order


def unlimited(value: float) -> float:
    return inf if value < 0 else float(value)


def columns(rows: Iterable[Iterable[float]]) -> Floats:
    return np.array([list(row) for row in rows], dtype=np.float64)


def check_share(case: ShareCase) -> None:
    """Fractional F of a tree (SEMANTICS 7.4, steps 1 to 4 and 6)."""
    queues = case["queues"]
    queues = [queues[i] for i in parents_first([(q["id"], q["parent"]) for q in queues])]
    at = {q["id"]: i for i, q in enumerate(queues)}
    quotas = Quotas(
        path=tuple(at),
        parent=np.array([-1 if q["parent"] is None else at[q["parent"]] for q in queues], dtype=np.int32),
        deserved=columns([q["deserved"]] for q in queues),
        limit=columns([unlimited(q["limit"])] for q in queues),
        weight=np.array([q["weight"] for q in queues], dtype=np.float64),
        priority=np.array([q["priority"] for q in queues]),
        resources=(0,),
    )
    got = divided(
        quotas,
        np.array([float(case["capacity"])]),
        columns([q["request"]] for q in queues),
        columns([q["usage"]] for q in queues),
        case["k"],
    ).share
    for name, expected in case["expected"].items():
        # The file's answers have nine decimals.
        assert close(got[at[name], 0], expected, least=1.0), (
            f"{name}: {got[at[name], 0]!r}, expected {expected!r}"
        )


def kai_shares(
    queues: Sequence[Mapping[str, Any]], total: Mapping[str, float], k: float
) -> dict[str, Floats]:
    """Return our shares with the preset `kai`, shape (3,) a queue, from a case's queues."""
    queues = [queues[i] for i in parents_first([(q["id"], q["parent"]) for q in queues])]
    at = {q["id"]: i for i, q in enumerate(queues)}

    def column(field: str) -> Floats:
        return columns([q[r][field] for r in KAI_RESOURCES] for q in queues)

    def bound(field: str) -> Floats:
        values = column(field)
        values[values < 0] = inf
        return values

    quotas = Quotas(
        path=tuple(at),
        parent=np.array([-1 if q["parent"] is None else at[q["parent"]] for q in queues], dtype=np.int32),
        deserved=bound("deserved"),
        limit=bound("limit"),
        weight=column("weight"),
        priority=np.array([q["priority"] for q in queues]),
        resources=(0, 1, 2),
    )
    by_age = sorted(at, key=lambda name: (queues[at[name]]["created"], name))
    seniority = np.empty(len(queues), dtype=np.int64)
    seniority[[at[name] for name in by_age]] = np.arange(len(queues))
    capacity = np.array([float(total[r]) for r in KAI_RESOURCES])
    got = divided(
        quotas, capacity, column("request"), column("usage"), k, preset="kai", seniority=seniority
    ).share
    return {name: got[i] for name, i in at.items()}


def differences(got: Mapping[str, Floats], expected: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return one sentence for each share that is not the expected one."""
    return [
        f"{name} {resource}: {got[name][r]!r}, expected {values[resource]!r}"
        for name, values in expected.items()
        for r, resource in enumerate(KAI_RESOURCES)
        if not close(got[name][r], values[resource])
    ]


def check_kai_fairshare(case: Mapping[str, Any]) -> None:
    """KAI's division, one answer (KAI.md 2 and 3)."""
    wrong = differences(kai_shares(case["queues"], case["total"], case["k"]), case["expected"])
    assert not wrong, "; ".join(wrong)


def check_kai_fairshare_varying(case: Mapping[str, Any]) -> None:
    """KAI's division where its answer varies: the exact answer, or one that it gave."""
    got = kai_shares(case["queues"], case["total"], case["k"])
    wrong = [differences(got, answer) for answer in [case["exact"], *case["observed"]]]
    assert not all(wrong), "; ".join(wrong[0])


def flat(names: Iterable[str]) -> Quotas:
    """Return quotas without parents, limits or anything deserved, weight 1."""
    path = tuple(names)
    n = len(path)
    return Quotas(
        path=path,
        parent=np.full(n, -1, dtype=np.int32),
        deserved=np.zeros((n, 1)),
        limit=np.full((n, 1), inf),
        weight=np.ones(n),
        priority=np.full(n, 100),
        resources=(GPU,),
    )


def ledger_of_jobs(jobs: Sequence[Mapping[str, Any]], now_s: int) -> Ledger:
    """Return the ledger of jobs with `quota`, `start`, `end` (None while it runs) and `gpus`."""
    amounts = np.zeros((len(jobs), len(RESOURCES)))
    amounts[:, GPU] = [job["gpus"] for job in jobs]
    n = len(jobs)
    rows = Rows(
        job_id=np.arange(1, n + 1),
        start_s=np.array([job["start"] for job in jobs], dtype=np.int64),
        end_s=np.array([UNSET_S if job["end"] is None else job["end"] for job in jobs], dtype=np.int64),
        path=tuple(job["quota"] for job in jobs),
        amounts=amounts,
        known=np.full(n, Known.RECORD, dtype=np.uint8),
        pauses=NO_PAUSES,
    )
    return ledger_of(rows, now_s)


def gpu_steps(steps: Mapping[str, Sequence[Sequence[float]]]) -> Steps:
    """Return steps of GPUs from lists of time and value by path."""
    return steps_of(
        [(int(t), path, (value, 0.0, 0.0)) for path, values in steps.items() for t, value in values]
    )


def check_usage(case: Mapping[str, Any]) -> None:
    """Integrals over a window (SEMANTICS 7.1 and 7.2), by the history and, where it can, by one pass."""
    now_s, quotas = case["now"], flat(case["deserved"])
    fairshare = FairShare(
        window=Window(type=case["window"]["type"], size_s=case["window"]["size"]),
        half_life_s=case["half_life"],
    )
    ledger = ledger_of_jobs(case["jobs"], now_s)
    steps = gpu_steps(case["deserved"] | {CAPACITY: case["capacity"]})
    _, got = advance(None, ledger, steps, quotas, fairshare, now_s)
    direct = allocated(ledger, quotas, now_s - case["window"]["size"], now_s, case["half_life"])
    expected = case["expected"]
    pairs = [
        ("surplus", got.surplus[0, 0], expected["surplus_gpu_s"]),
        ("capacity", got.capacity[0], expected["capacity_gpu_s"]),
    ]
    for i, name in enumerate(quotas.path):
        pairs.append((f"{name} allocated", got.allocated[i, 0], expected["allocated_gpu_s"][name]))
        pairs.append((f"{name} in one pass", direct[i, 0], expected["allocated_gpu_s"][name]))
        pairs.append((f"{name} over quota", got.over_quota[i, 0], expected["over_quota_gpu_s"][name]))
    wrong = [
        f"{what}: {value!r}, expected {right!r}" for what, value, right in pairs if not close(value, right)
    ]
    assert not wrong, "; ".join(wrong)


SHARE_CHECKS: dict[str, Callable[..., None]] = {
    "share_cases": check_share,
    "usage_cases": check_usage,
    "kai_fairshare_cases": check_kai_fairshare,
    "kai_fairshare_nondeterministic": check_kai_fairshare_varying,
}
