"""KAI's order between queues and its allocate loop, against our order of one pass.

We differ on purpose. Where an answer is not KAI's, the rules that make the difference are found by
switching our rules to KAI's one by one: the fewest switches that give KAI's answer are the explanation.
With none the model below is slurmfair.order, which is asserted for every case; with all it is KAI, as
KAI.md 4 and 5 describe it, which is asserted too. So nothing stays unexplained.

The names are those of SEMANTICS 8, and of section 5 for the ratio, where KAI's differs in the details:
A20 ties · A21 first key between quotas, ours with the candidate · A23 non-preemptible jobs over quota ·
A29 several resources: KAI's queue is over its share only if it is in all three ·
5(d) KAI cuts the denominator by the limit, and knows unlimited deserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf
from typing import Any

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Floats, Outcome, Queue, Quotas, Room
from slurmfair.order import order_jobs
from tests.conformance.share_files import KAI_RESOURCES, differences, kai_shares

SWITCHES = ("A20", "A21", "A23", "A29", "5(d)")
KAI = frozenset(SWITCHES)
OURS: frozenset[str] = frozenset()
POLICY = QueuePolicy(name="round_robin", on_never_fit="block")
ORDER_ONLY = FairShare(enforce="order", starvation_after_s=0.0)
UNITS = (100.0, 1.0, 1.0)  # KAI counts GPUs in hundredths
OUTCOMES = {Outcome.STARTS: "Allocated", Outcome.LIMIT: "OverLimit", Outcome.CAPACITY: "NoRoom"}
WHY: Counter[tuple[str, tuple[str, ...]]] = Counter()  # by file: how often which rules explained an answer

Vector = tuple[float, float, float]


@dataclass
class Node:
    """A queue."""

    name: str
    parent: str | None
    priority: int
    created: int
    deserved: Vector
    limit: Vector
    share: Vector
    held: Vector
    fixed: Vector = (0.0, 0.0, 0.0)  # held by jobs that cannot be preempted
    waiting: list[Job] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    name: str
    queue: str
    need: Vector
    priority: int = 0
    created: int = 0
    preemptible: bool = True


def vector(values: Mapping[str, float]) -> Vector:
    gpu, cpu, memory = (float(values[r]) * unit for r, unit in zip(KAI_RESOURCES, UNITS, strict=True))
    return gpu, cpu, memory


def bound(queue: Mapping[str, Any], name: str) -> Vector:
    gpu, cpu, memory = (
        inf if queue[r][name] < 0 else float(queue[r][name]) * unit
        for r, unit in zip(KAI_RESOURCES, UNITS, strict=True)
    )
    return gpu, cpu, memory


def plus(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def exceeds(a: Vector, b: Vector) -> list[bool]:
    return [x > y for x, y in zip(a, b, strict=True)]


# -- the model -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """Which of our rules are KAI's, and the capacity that unlimited queues are measured by."""

    kai: frozenset[str]
    total: Vector

    def tier(self, node: Node, job: Job) -> tuple[bool, bool]:
        with_job = plus(node.held, job.need)
        over_deserved = any(exceeds(with_job, node.deserved))
        tested = node.held if "A21" in self.kai else with_job
        over = exceeds(tested, node.share)
        over_share = all(over) if "A29" in self.kai else any(over)
        return (over_share, over_deserved) if "A21" in self.kai else (over_deserved, over_share)

    def allocatable(self, node: Node) -> Vector:
        def one(deserved: float, limit: float, share: float) -> float:
            return limit if deserved == inf else min(limit, max(deserved, share))

        gpu, cpu, memory = map(one, node.deserved, node.limit, node.share)
        return gpu, cpu, memory

    def ratio(self, node: Node, need: Vector) -> tuple[bool, float]:
        """Return whether something is held where nothing may be had, and the dominant ratio."""
        used = plus(node.held, need)
        if "5(d)" in self.kai:
            top = self.allocatable(node)
            shares = [
                u * 1000 if t == 0 else u / (capacity if t == inf else t) if u else 0.0
                for u, t, capacity in zip(used, top, self.total, strict=True)
            ]
            return any(t == 0 and u > 0 for u, t in zip(used, top, strict=True)), max(shares)
        top = [max(d, s) for d, s in zip(node.deserved, node.share, strict=True)]  # type: ignore[assignment]
        if not any(top) or any(t == 0 and u > 0 for u, t in zip(used, top, strict=True)):
            return True, 0.0
        return False, max(u / t for u, t in zip(used, top, strict=True) if t)

    def before(self, a: tuple[Node, Job], b: tuple[Node, Job]) -> bool:
        """Tell whether sibling a goes before sibling b."""
        (left, left_job), (right, right_job) = a, b
        keys = [(self.tier(node, job), -node.priority, self.ratio(node, job.need)) for node, job in (a, b)]
        if keys[0] != keys[1]:
            return keys[0] < keys[1]
        if "A20" not in self.kai:
            return (left_job.created, left.name) < (right_job.created, right.name)
        held = [self.ratio(node, (0.0, 0.0, 0.0))[1] for node in (left, right)]
        if held[0] != held[1]:
            return held[0] < held[1]
        weaker = self.weaker(left, right), self.weaker(right, left)
        if weaker[0] != weaker[1]:
            return weaker[0]
        return left.created < right.created

    def weaker(self, a: Node, b: Node) -> bool:
        pairs = list(zip(self.allocatable(a), self.allocatable(b), strict=True))
        return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)

    def first(self, sides: Sequence[tuple[Node, Job]]) -> tuple[Node, Job]:
        best = sides[0]
        for side in sides[1:]:
            if self.before(side, best):
                best = side
        return best


NO_JOB = Job("none", "", (0.0, 0.0, 0.0))


def leaving_order(nodes: Sequence[Node], rules: Rules) -> list[str]:
    """Return the queues in the order in which they leave, nothing changing in between."""
    left = [(node, node.waiting[0] if node.waiting else NO_JOB) for node in nodes]
    order = []
    while left:
        best = rules.first(left)
        left.remove(best)
        order.append(best[0].name)
    return order


def loop(nodes: Sequence[Node], free: Vector, rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield each waiting job and what becomes of it, picking the best afresh each time."""
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        node.waiting.sort(key=lambda job: (-job.priority, job.created, job.name))
    while (job := best_below(None, nodes, rules)) is not None:
        path = list(upwards(by_name, job.queue))
        by_name[job.queue].waiting.remove(job)
        outcome = tried(job, path, free, rules)
        if outcome == "Allocated":
            free = plus(free, (-job.need[0], -job.need[1], -job.need[2]))
            for node in path:
                node.held = plus(node.held, job.need)
                node.fixed = node.fixed if job.preemptible else plus(node.fixed, job.need)
        yield job.name, outcome


def best_below(parent: str | None, nodes: Sequence[Node], rules: Rules) -> Job | None:
    sides = []
    for node in nodes:
        if node.parent == parent:
            job = node.waiting[0] if node.waiting else best_below(node.name, nodes, rules)
            if job is not None:
                sides.append((node, job))
    return rules.first(sides)[1] if sides else None


def upwards(by_name: Mapping[str, Node], name: str | None) -> Iterator[Node]:
    while name is not None:
        yield by_name[name]
        name = by_name[name].parent


def tried(job: Job, path: Sequence[Node], free: Vector, rules: Rules) -> str:
    for node in path:
        over = exceeds(plus(node.held, job.need), node.limit)
        if any(o and n > 0 for o, n in zip(over, job.need, strict=True)):
            return "OverLimit"
    if "A23" in rules.kai and not job.preemptible:
        for node in path:
            over = exceeds(plus(node.fixed, job.need), node.deserved)
            if any(o and n > 0 for o, n in zip(over, job.need, strict=True)):
                return "NonPreemptibleOverQuota"
    return "NoRoom" if any(exceeds(job.need, free)) else "Allocated"


def fewest(answer: Callable[[frozenset[str]], object], right: Callable[[object], bool]) -> tuple[str, ...]:
    """Return the smallest set of switches with which the model gives KAI's answer."""
    for size in range(len(SWITCHES) + 1):
        for chosen in combinations(SWITCHES, size):
            if right(answer(frozenset(chosen))):
                return chosen
    raise AssertionError("no set of rules explains the answer")


# -- slurmfair.order -------------------------------------------------------------------------------------


def our_pass(nodes: Sequence[Node], free: Vector, total: Vector) -> list[tuple[str, str]]:
    """Return the jobs in the order slurmfair.order tries them, and what becomes of them."""
    at = {node.name: i for i, node in enumerate(nodes)}
    jobs = sorted((job for node in nodes for job in node.waiting), key=lambda job: job.name)
    quotas = Quotas(
        path=tuple(at),
        parent=np.array([-1 if node.parent is None else at[node.parent] for node in nodes], dtype=np.int32),
        deserved=matrix(node.deserved for node in nodes),
        limit=matrix(node.limit for node in nodes),
        weight=np.ones(len(nodes)),
        priority=np.array([node.priority for node in nodes]),
        resources=(0, 1, 2),
    )
    decision = order_jobs(
        queue_of(jobs, at),
        quotas,
        [POLICY] * len(nodes),
        room_of(free, total),
        matrix(node.held for node in nodes),
        matrix(node.share for node in nodes),
        ORDER_ONLY,
        now_s=0,
    )
    tried = np.argsort(decision.attempt, kind="stable")
    assert (np.sort(decision.attempt) >= 0).all(), "a job was not tried"
    return [(jobs[row].name, OUTCOMES[Outcome(int(decision.outcome[row]))]) for row in tried]


def matrix(rows: Iterator[Vector]) -> Floats:
    return np.array(list(rows), dtype=np.float64)


def queue_of(jobs: Sequence[Job], at: Mapping[str, int]) -> Queue:
    n = len(jobs)
    ranks = {priority: rank for rank, priority in enumerate(sorted({job.priority for job in jobs}), 1)}
    created = np.array([job.created for job in jobs], dtype=np.int64)
    return Queue(
        entry_id=np.arange(1, n + 1),
        leaf=np.array([at[job.queue] for job in jobs], dtype=np.int32),
        job_priority=np.array([ranks[job.priority] for job in jobs], dtype=np.int64),
        order_s=created,
        waiting_since_s=created,
        first_attempt_s=np.full(n, UNSET_S),
        need=np.array([job.need for job in jobs], dtype=np.int64).reshape(n, 3),
        nodes=np.ones(n, dtype=np.int64),
        tasks=np.ones(n, dtype=np.int64),
        time_limit_s=np.full(n, FOREVER_S),
        classes=np.ones(n, dtype=np.uint64),
        lane=np.zeros(n, dtype=np.int32),
        unplaced=np.zeros(n, dtype=np.bool_),
    )


def room_of(free: Vector, total: Vector) -> Room:
    """Return one large node."""
    size = int(total[0])
    shape = np.zeros((1, size + 1), dtype=np.int64)
    shape[0, int(free[0])] = 1
    return Room(
        capacity=np.array(total, dtype=np.int64),
        configured=np.array(total, dtype=np.int64),
        free=np.array(free, dtype=np.int64),
        class_name=("all",),
        class_configured=np.array([size]),
        class_nodes=np.array([1]),
        class_node_size=np.array([size]),
        shape=shape,
    )


# -- cases -----------------------------------------------------------------------------------------------


def queue_nodes(case: Mapping[str, Any]) -> list[Node]:
    nodes = []
    for q in case["queues"]:
        job = [] if q["job"] is None else [Job(q["id"], q["id"], vector(q["job"]))]
        share = vector({r: q[r]["fair_share"] for r in KAI_RESOURCES})
        held = vector({r: q[r]["allocated"] for r in KAI_RESOURCES})
        deserved, limit = bound(q, "deserved"), bound(q, "limit")
        node = Node(q["id"], None, q["priority"], q["created"], deserved, limit, share, held, waiting=job)
        nodes.append(node)
    return nodes


def check_queue_order(case: Mapping[str, Any]) -> None:
    """Which queue goes next; with `expected_order` all of them."""
    nodes, total = queue_nodes(case), vector(case["total"])
    expected = case.get("expected_order")

    def answer(kai: frozenset[str]) -> object:
        return leaving_order(nodes, Rules(kai, total))

    def right(order: object) -> bool:
        assert isinstance(order, list)
        return order == expected if expected else order[0] in acceptable(case)

    check_model(nodes, total, answer)
    check_pairs(case, nodes, Rules(KAI, total))
    note("kai_queue_order" + suffix(case), fewest(answer, right))


def acceptable(case: Mapping[str, Any]) -> list[str]:
    return list(case["observed_next"]) if "observed_next" in case else [case["expected_next"]]


def check_model(nodes: Sequence[Node], total: Vector, answer: Callable[[frozenset[str]], object]) -> None:
    """Let slurmfair.order try one job a queue on a full cluster: the order must be the model's."""
    for node in nodes:
        node.waiting = node.waiting or [Job(node.name, node.name, (0.0, 0.0, 0.0))]
    got = [name for name, _ in our_pass(nodes, (0.0, 0.0, 0.0), total)]
    assert got == answer(OURS), f"slurmfair.order says {got}, the model {answer(OURS)}"


def check_pairs(case: Mapping[str, Any], nodes: Sequence[Node], kai: Rules) -> None:
    """The model with all switches is KAI's comparison."""
    sides = {node.name: (node, node.waiting[0]) for node in nodes}
    for pair in case.get("pairs", []):
        left, right = sides[pair["l"]], sides[pair["r"]]
        if pair.get("rule") != "creation" or left[0].created != right[0].created:
            assert kai.before(left, right) == (pair["result"] < 0), f"pair {pair}"


def loop_nodes(case: Mapping[str, Any]) -> list[Node]:
    """Return the queues, parents first, with what runs and what waits."""
    nodes = {}
    for q in case["queues"]:
        share = vector(case["expected_fair_share"][q["id"]])
        deserved, limit = bound(q, "deserved"), bound(q, "limit")
        held = (0.0, 0.0, 0.0)
        nodes[q["id"]] = Node(q["id"], q["parent"], q["priority"], q["created"], deserved, limit, share, held)
    for j in case["jobs"]:
        job = Job(j["id"], j["queue"], vector(j["request"]), j["priority"], j["created"], j["preemptible"])
        if not j["running"]:
            nodes[job.queue].waiting.append(job)
            continue
        for node in upwards(nodes, job.queue):
            node.held = plus(node.held, job.need)
            node.fixed = node.fixed if job.preemptible else plus(node.fixed, job.need)
    return sorted(nodes.values(), key=lambda node: sum(1 for _ in upwards(nodes, node.name)))


def check_loop(case: Mapping[str, Any]) -> None:
    """The order in which jobs are tried and what becomes of each, shares included."""
    total = vector(case["total"])
    expected = case.get("expected_sequence") or case["always_fresh_order"]
    sequence = [(entry["job"], entry["outcome"]) for entry in expected]
    running = [vector(job["request"]) for job in case["jobs"] if job["running"]]
    free = total
    for need in running:
        free = plus(free, (-need[0], -need[1], -need[2]))

    def answer(kai: frozenset[str]) -> object:
        return list(loop(loop_nodes(case), free, Rules(kai, total)))

    got = our_pass(loop_nodes(case), free, total)
    assert got == answer(OURS), f"slurmfair.order says {got}, the model {answer(OURS)}"
    assert answer(KAI) == sequence, "KAI.md 4 and 5 do not give the expected answer"
    wrong = differences(shares_of(case), case["expected_fair_share"])
    assert not wrong, "; ".join(wrong)
    note("kai_allocate_loop" + suffix(case), fewest(answer, lambda found: found == sequence))


def shares_of(case: Mapping[str, Any]) -> Mapping[str, Floats]:
    """Return our shares of a loop's queues; what is requested is added up from its jobs."""
    asked: dict[str, dict[str, float]] = {q["id"]: dict.fromkeys(KAI_RESOURCES, 0.0) for q in case["queues"]}
    parent_of = {q["id"]: q["parent"] for q in case["queues"]}
    for job in case["jobs"]:
        name = job["queue"]
        while name is not None:
            for r in KAI_RESOURCES:
                asked[name][r] += job["request"][r]
            name = parent_of[name]
    queues = [q | {r: q[r] | {"request": asked[q["id"]][r]} for r in KAI_RESOURCES} for q in case["queues"]]
    return kai_shares(queues, case["total"], case["k"])


def suffix(case: Mapping[str, Any]) -> str:
    return "_nondeterministic" if "class" in case else "_cases"


def note(file: str, rules: tuple[str, ...]) -> None:
    WHY[file, rules] += 1


def explanations(file_name: str) -> Iterator[str]:
    """Yield how many answers of a file are KAI's, and which rules make the others differ."""
    found = {rules: count for (name, rules), count in WHY.items() if file_name.startswith(name)}
    if not found:
        return
    same = found.pop((), 0)
    others = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    yield f"  as KAI: {same} of {same + sum(found.values())}"
    for rules, count in others:
        yield f"  else by {' with '.join(rules)}: {count}"


ORDER_CHECKS: dict[str, Callable[..., None]] = {
    "kai_queue_order_cases": check_queue_order,
    "kai_queue_order_nondeterministic": check_queue_order,
    "kai_allocate_loop_cases": check_loop,
    "kai_allocate_loop_nondeterministic": check_loop,
}
