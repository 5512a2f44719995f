"""The slow, obvious model of a pass: flat loops, windows as SEMANTICS 4 words them, nodes one by one.

After each success everything is looked at afresh. An entry that has failed is not offered again in the
same pass: room only shrinks, so it would fail again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil, floor, inf

import numpy as np

from slurmfair.config import FairShare, QueuePolicy
from slurmfair.model import FOREVER_S, UNSET_S, Floats, Outcome, Queue, Quotas, Room
from slurmfair.walk import Running

NO_SHARE = inf
MOST_IN_TURN = MOST_NAMED = 512


@dataclass
class Entry:
    row: int
    leaf: int
    priority: int
    order_s: int
    waiting_since_s: int
    first_attempt_s: int
    leading_since_s: int
    need: tuple[int, ...]
    nodes: int
    tasks: int
    time_limit_s: int
    classes: frozenset[int]
    gpu_type: int
    unplaced: bool
    promised: bool
    outcome: Outcome = Outcome.BEHIND
    starts: int = 0
    attempt: int = -1
    place_open: int = -1
    blocker: int = -1
    position: int = 0
    effective: float = 0.0
    reserved: bool = False
    may_start: int = 0
    failed: bool = False  # in this pass
    leads: bool = False  # first of its low lane at the cap when the pass begins
    reason: Outcome | None = None  # of that

    @property
    def waits(self) -> bool:
        return self.outcome != Outcome.PARKED and self.starts < self.tasks


@dataclass
class Node:
    kind: int
    free: int


@dataclass
class Pass:
    queue: Queue
    quotas: Quotas
    policies: Sequence[QueuePolicy]
    room: Room
    fair_share: list[list[float]]
    entitlement: list[list[float]]
    allocated: list[list[float]]
    fairshare: FairShare
    running: Running | None
    now_s: int
    entries: list[Entry] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    reservations: list[Entry] = field(default_factory=list)
    someone_failed: bool = False
    n_named: int = 0

    # -- quotas ----------------------------------------------------------------------------------------

    @property
    def main(self) -> int:
        return self.quotas.resources[0]

    def path(self, quota: int) -> list[int]:
        """Return the quota and all above it."""
        found = []
        while quota >= 0:
            found.append(quota)
            quota = int(self.quotas.parent[quota])
        return found

    def wants(self, entry: Entry, quota: int) -> list[float]:
        """Return what the quota would hold with the entry."""
        return [
            held + entry.need[r] for held, r in zip(self.allocated[quota], self.quotas.resources, strict=True)
        ]

    def within_limits(self, entry: Entry) -> bool:
        return all(
            entry.need[r] == 0 or self.allocated[q][i] + entry.need[r] <= self.quotas.limit[q, i]
            for q in self.path(entry.leaf)
            for i, r in enumerate(self.quotas.resources)
        )

    def entitled(self, entry: Entry) -> bool:
        return all(
            have <= owed
            for q in self.path(entry.leaf)
            for have, owed in zip(self.wants(entry, q), self.entitlement[q], strict=True)
        )

    def deserves(self, entry: Entry) -> bool:
        return all(
            have <= deserved
            for q in self.path(entry.leaf)
            for have, deserved in zip(self.wants(entry, q), self.quotas.deserved[q].tolist(), strict=True)
        )

    def key(self, quota: int, entry: Entry) -> tuple[bool, bool, int, float, int, str]:
        """Return the key of SEMANTICS 5, (a) to (f), smaller first; what was promised is within F and first there."""
        have = self.wants(entry, quota)
        deserved = [float(d) for d in self.quotas.deserved[quota]]
        share = self.fair_share[quota]
        most = [max(d, f) for d, f in zip(deserved, share, strict=True)]
        ratios = [h / m if m > 0 else (NO_SHARE if h > 0 else 0.0) for h, m in zip(have, most, strict=True)]
        return (
            any(h > d for h, d in zip(have, deserved, strict=True)),
            not entry.promised and any(h > f for h, f in zip(have, share, strict=True)),
            -int(self.quotas.priority[quota]),
            0.0 if entry.promised else max(ratios) if any(m > 0 for m in most) else NO_SHARE,
            entry.order_s,
            self.quotas.path[quota],
        )

    # -- policies --------------------------------------------------------------------------------------

    def effective(self, entry: Entry) -> float:
        policy = self.policies[entry.leaf]
        if policy.name != "intelligent" or entry.priority >= policy.high_threshold:
            return entry.priority
        gained = (self.now_s - entry.waiting_since_s) / policy.aging_interval_s
        gained = gained if policy.aging_mode == "linear" else floor(gained)
        cap = min(policy.aging_cap, policy.high_threshold - 1)
        return max(entry.priority, min(cap, gained + entry.priority))

    def is_high(self, entry: Entry) -> bool:
        policy = self.policies[entry.leaf]
        return policy.name == "intelligent" and entry.priority >= policy.high_threshold

    def in_order(self, leaf: int) -> list[Entry]:
        """Return the waiting entries of a quota, first to last."""

        def place(entry: Entry) -> tuple[bool, float, int, int]:
            by_submit = self.policies[leaf].order == "submit"
            rank = 0.0 if by_submit else -entry.effective
            return (not self.is_high(entry), rank, entry.order_s, entry.row)

        return sorted((e for e in self.entries if e.leaf == leaf and e.waits), key=place)

    def lanes(self, leaf: int) -> list[tuple[list[Entry], int]]:
        """Return the queues that block each other in a quota, and how many of each are in the window."""
        order = self.in_order(leaf)
        if self.policies[leaf].fifo_scope == "quota":
            return self.lanes_among(leaf, order)
        return [
            lane
            for kind in sorted({e.gpu_type for e in order})
            for lane in self.lanes_among(leaf, [e for e in order if e.gpu_type == kind])
        ]

    def lanes_among(self, leaf: int, order: list[Entry]) -> list[tuple[list[Entry], int]]:
        policy = self.policies[leaf]
        if policy.name == "fifo":
            return [(order, 1)]
        if policy.name == "round_robin":
            return [(order, len(order))]
        if policy.name == "balance":
            prefix = 0
            while prefix < len(order) and self.expired(
                order[prefix].first_attempt_s, policy.balance_timeout_s
            ):
                prefix += 1
            return [(order, min(prefix + 1, policy.max_window or inf))]  # type: ignore[list-item]
        high = [e for e in order if self.is_high(e)]
        low = [e for e in order if not self.is_high(e)]
        if high and policy.high_blocks_low:
            return [(order, 1)]
        return [(high, 1), (low, 1 if low and self.guarded(low[0]) else len(low))]

    def expired(self, since_s: int, timeout_s: float) -> bool:
        return since_s != UNSET_S and self.now_s - since_s >= timeout_s

    def guarded(self, entry: Entry) -> bool:
        guard_s = self.policies[entry.leaf].starvation_guard_s
        return entry.leads and entry.starts == 0 and self.expired(entry.leading_since_s, guard_s)

    def find_leader(self, leaf: int) -> None:
        policy = self.policies[leaf]
        low = [e for e in self.in_order(leaf) if not self.is_high(e)]
        if policy.name == "intelligent" and policy.starvation_guard_s > 0 and low:
            low[0].leads = low[0].effective >= min(policy.aging_cap, policy.high_threshold - 1)

    def leading_since(self, entry: Entry) -> int:
        """Return since when the entry leads after the pass."""
        for other in self.entries:
            other.leads = False
        self.find_leader(entry.leaf)
        if not entry.leads:
            return UNSET_S
        return self.now_s if entry.starts or entry.leading_since_s == UNSET_S else entry.leading_since_s

    def candidate(self, leaf: int) -> Entry | None:
        """Return the first entry of the window that has not failed yet."""
        window = {e.row for lane, width in self.lanes(leaf) for e in lane[: int(min(width, len(lane)))]}
        offered = [e for e in self.in_order(leaf) if e.row in window and not e.failed]
        return offered[0] if offered else None

    def best(self, above: int, candidate: Callable[[int], Entry | None]) -> Entry | None:
        """Return the best candidate below a quota (-1: below the root), children compared with children."""
        offers = []
        for quota in range(len(self.quotas)):
            if self.quotas.parent[quota] == above:
                entry = self.best(quota, candidate) or candidate(quota)
                if entry is not None:
                    offers.append((self.key(quota, entry), entry))
        return min(offers, key=lambda offer: offer[0])[1] if offers else None

    # -- room ------------------------------------------------------------------------------------------

    def units(self, entry: Entry) -> int:
        return ceil(entry.need[self.main] / max(1, entry.nodes))

    def free_in(self, classes: frozenset[int]) -> int:
        return sum(node.free for node in self.nodes if node.kind in classes)

    def fitting_nodes(self, entry: Entry) -> list[Node]:
        """Return the nodes that could take a part of the entry, those with the least to spare first."""
        units = self.units(entry)
        fitting = [node for node in self.nodes if node.kind in entry.classes and node.free >= units]
        return sorted(fitting, key=lambda node: (node.free, node.kind))

    def never_fits(self, entry: Entry) -> bool:
        room, main = self.room, self.main
        over_limit = any(
            entry.need[r] > self.quotas.limit[q, i]
            for q in self.path(entry.leaf)
            for i, r in enumerate(self.quotas.resources)
        )
        over_pool = any(entry.need[r] > room.configured[r] for r in range(3))
        large = [c for c in entry.classes if room.class_node_size[c] >= self.units(entry)]
        return (
            over_limit
            or over_pool
            or entry.need[main] > sum(int(room.class_configured[c]) for c in entry.classes)
            or sum(int(room.class_nodes[c]) for c in large) < max(1, entry.nodes)
        )

    def verdict(self, entry: Entry) -> Outcome:
        if not self.within_limits(entry):
            return Outcome.LIMIT
        if any(entry.need[r] > self.free[r] for r in range(3) if entry.need[r]):
            return Outcome.CAPACITY
        if entry.need[self.main] > self.free_in(entry.classes):
            return Outcome.CAPACITY
        if entry.unplaced or len(self.fitting_nodes(entry)) < max(1, entry.nodes):
            return Outcome.PLACEMENT
        if self.held_back(entry):
            return Outcome.HELD_BACK
        return Outcome.STARTS

    def held_back(self, entry: Entry) -> bool:
        others = [r for r in self.reservations if r.leaf != entry.leaf and r.classes & entry.classes]
        if entry.promised or not self.could_take(entry, others):
            return False
        if self.entitled(entry) and (self.deserves(entry) or not any(holder.promised for holder in others)):
            return False
        if self.running is None or not self.fairshare.backfill_under_reservation:
            return True
        return any(self.now_s + entry.time_limit_s > self.earliest_s(holder) for holder in others)

    def could_take(self, entry: Entry, others: list[Entry]) -> bool:
        """Tell whether the entry could take something that other leaves have reserved."""
        for r in range(3):
            claimed = sum(holder.need[r] for holder in others)
            if r != self.main and entry.need[r] and claimed and self.free[r] - entry.need[r] < claimed:
                return True
        everyone = [r for r in self.reservations if r.leaf != entry.leaf]
        for holder in others:
            inside = sum(r.need[self.main] for r in everyone if r.classes <= holder.classes)
            left = self.free_in(holder.classes) - entry.need[self.main]
            if entry.need[self.main] and holder.need[self.main] and left < inside:
                return True
        return False

    def in_the_way_of(self, entry: Entry) -> Entry:
        """Return for whom an entry is held back: the first, as they were made, that it leaves too little for."""
        everyone = [r for r in self.reservations if r.leaf != entry.leaf]
        others = [r for r in everyone if r.classes & entry.classes]
        if self.entitled(entry):
            return next(holder for holder in others if holder.promised)
        short = []
        for r in range(3):
            if r != self.main and entry.need[r]:
                left = self.free[r] - entry.need[r]
                short.append(self.first_short(others, others, r, left))
        for classes in {holder.classes for holder in others if holder.need[self.main]}:
            if entry.need[self.main]:
                left = self.free_in(classes) - entry.need[self.main]
                inside = [holder for holder in everyone if holder.classes <= classes]
                short.append(self.first_short(inside, others, self.main, left))
        return self.reservations[min(self.reservations.index(one) for one in short if one)]

    def first_short(self, claiming: list[Entry], named: list[Entry], r: int, left: int) -> Entry | None:
        """Return the last of those to be named when the claims become more than is left, or the first after that."""
        for n in range(1, len(claiming) + 1):
            near = [holder for holder in claiming[:n] if holder in named and holder.need[r]]
            if near and sum(holder.need[r] for holder in claiming[:n]) > left:
                return near[-1]
        return None

    def room_s(self, entry: Entry) -> int:
        """Return when there could be room for an entry that has reserved, -1 where that is not judged."""
        judged = self.running is not None and self.fairshare.backfill_under_reservation
        return self.earliest_s(entry) if entry.reserved and judged else -1

    def earliest_s(self, holder: Entry) -> int:
        """Return when the holder's need could be free, with the room before the pass."""
        assert self.running is not None
        ends = self.running.end_by_s.tolist()
        if self.could_hold(holder, []):
            return self.now_s
        for end_s in sorted(set(ends)):
            if self.could_hold(holder, [job for job, end in enumerate(ends) if end <= end_s]):
                return min(int(end_s), FOREVER_S)
        return FOREVER_S

    def could_hold(self, holder: Entry, gone: list[int]) -> bool:
        """Tell whether the room before the pass and what ended jobs give back hold the need."""
        assert self.running is not None
        held = self.running.held
        free = [int(self.room.free[r]) + sum(int(held[job, r]) for job in gone) for r in range(3)]
        inside = sum(
            level * int(nodes) for kind in holder.classes for level, nodes in enumerate(self.room.shape[kind])
        ) + sum(
            int(held[job, self.main])
            for job in gone
            if classes_of(self.running.classes[job]) & holder.classes
        )
        return all(holder.need[r] <= free[r] for r in range(3)) and holder.need[self.main] <= inside

    # -- the pass --------------------------------------------------------------------------------------

    def charge(self, entry: Entry) -> None:
        for quota in self.path(entry.leaf):
            for i, r in enumerate(self.quotas.resources):
                self.allocated[quota][i] += entry.need[r]

    def start_one(self, entry: Entry) -> None:
        self.charge(entry)
        self.free = [free - need for free, need in zip(self.free, entry.need, strict=True)]
        for node in self.fitting_nodes(entry)[: max(1, entry.nodes)]:
            node.free -= self.units(entry)
        entry.starts += 1
        if entry.tasks > 1:
            entry.first_attempt_s = UNSET_S  # progress

    def fail(self, entry: Entry, reason: Outcome) -> None:
        entry.failed = True
        entry.reason = reason
        entry.outcome = Outcome.STARTS if entry.starts else reason
        if entry.outcome == Outcome.HELD_BACK and self.n_named < MOST_NAMED:
            entry.blocker = self.in_the_way_of(entry).row
            self.n_named += 1
        if entry.first_attempt_s == UNSET_S:
            entry.first_attempt_s = self.now_s
        if reason not in (Outcome.CAPACITY, Outcome.PLACEMENT):
            return
        after_s = self.fairshare.starvation_after_s
        starved = after_s > 0 and self.now_s - entry.waiting_since_s >= after_s and not self.someone_failed
        self.someone_failed = True
        if (
            self.fairshare.enforce == "holdback"
            and (starved or entry.promised or self.entitled(entry))
            and all(holder.leaf != entry.leaf for holder in self.reservations)
            and self.room_for_reservation(entry)
        ):
            entry.reserved = True
            self.reservations.append(entry)

    def room_for_reservation(self, entry: Entry) -> bool:
        return all(
            sum(holder.need[r] for holder in self.reservations) + entry.need[r] <= self.room.capacity[r]
            for r in range(3)
        )

    def run(self) -> None:
        for entry in self.entries:
            entry.effective = self.effective(entry)
            if self.policies[entry.leaf].on_never_fit != "block" and self.never_fits(entry):
                entry.outcome = Outcome.PARKED
        for leaf in range(len(self.quotas)):
            for position, entry in enumerate(self.in_order(leaf), 1):
                entry.position = position
            self.find_leader(leaf)
        attempts = count()
        while (entry := self.best(-1, self.candidate)) is not None:
            entry.attempt = next(attempts)
            verdict = self.verdict(entry)
            if verdict == Outcome.STARTS:
                self.start_one(entry)
                if entry.starts == entry.tasks:
                    entry.outcome = verdict
            else:
                self.fail(entry, verdict)
        self.name_blockers()

    def name_blockers(self) -> None:
        """Everybody behind a window stands behind its last entry."""
        for leaf in range(len(self.quotas)):
            for lane, width in self.lanes(leaf):
                for entry in lane[int(min(width, len(lane))) :]:
                    entry.blocker = lane[int(width) - 1].row

    def open_up(self) -> None:
        """Open what starts, then task by task what waits for room, as far as the limits bear all that is open.

        What is not reserved must not take what is. Quotas take turns as if all that is opened had started, until
        that is as much as the pool is large, or as many as Slurm will look at.
        """
        for entry in self.entries:
            entry.may_start = entry.starts
        waiting = [e for e in self.entries if e.reason in (Outcome.CAPACITY, Outcome.PLACEMENT)]
        waiting.sort(key=lambda e: e.attempt)
        for entry in [e for e in waiting if e.reserved]:
            self.open_tasks(entry)
        left = [e for e in waiting if not e.reserved]
        units = 0
        for place in range(MOST_IN_TURN):

            def first(leaf: int) -> Entry | None:
                return next((e for e in left if e.leaf == leaf), None)

            if not left or units >= self.room.capacity[self.main]:
                break
            entry = self.best(-1, first)
            assert entry is not None
            left.remove(entry)
            entry.place_open = place
            self.open_if_free(entry)
            units += max(1, entry.need[self.main] * (entry.may_start - entry.starts))
        for entry in left:
            self.open_if_free(entry)

    def open_if_free(self, entry: Entry) -> None:
        if not self.held_back(entry):
            self.open_tasks(entry)

    def open_tasks(self, entry: Entry) -> None:
        """Open what the limits bear."""
        while entry.may_start < entry.tasks and self.within_limits(entry):
            self.charge(entry)
            entry.may_start += 1


def classes_of(mask: np.uint64) -> frozenset[int]:
    return frozenset(c for c in range(64) if int(mask) >> c & 1)


def entries_of(queue: Queue) -> list[Entry]:
    leading = queue.leading_since_s
    return [
        Entry(
            row=row,
            leaf=int(queue.leaf[row]),
            priority=int(queue.job_priority[row]),
            order_s=int(queue.order_s[row]),
            waiting_since_s=int(queue.waiting_since_s[row]),
            first_attempt_s=int(queue.first_attempt_s[row]),
            leading_since_s=UNSET_S if leading is None else int(leading[row]),
            need=tuple(int(need) for need in queue.need[row]),
            nodes=int(queue.nodes[row]),
            tasks=int(queue.tasks[row]),
            time_limit_s=int(queue.time_limit_s[row]),
            classes=classes_of(queue.classes[row]),
            gpu_type=int(queue.lane[row]),
            unplaced=bool(queue.unplaced[row]),
            promised=queue.promised is not None and bool(queue.promised[row]),
        )
        for row in range(len(queue))
    ]


def decide(
    queue: Queue,
    quotas: Quotas,
    policies: Sequence[QueuePolicy],
    room: Room,
    allocated: Floats,
    fair_share: Floats,
    fairshare: FairShare,
    now_s: int,
    *,
    entitlement: Floats | None = None,
    running: Running | None = None,
) -> Pass:
    """Return the pass that order_jobs must agree with, and `allocated` as it leaves it."""
    made = Pass(
        queue=queue,
        quotas=quotas,
        policies=policies,
        room=room,
        fair_share=fair_share.tolist(),
        entitlement=(fair_share if entitlement is None else entitlement).tolist(),
        allocated=allocated.tolist(),
        fairshare=fairshare,
        running=running,
        now_s=now_s,
        entries=entries_of(queue),
        nodes=[
            Node(kind, level)
            for kind in range(len(room.shape))
            for level, nodes in enumerate(room.shape[kind])
            for _ in range(int(nodes))
        ],
        free=[int(free) for free in room.free],
    )
    made.run()
    return made


def order_out(made: Pass) -> list[int]:
    """Return the rows of the open entries as they go out to Slurm (DESIGN 3a)."""
    tried = sorted((e for e in made.entries if e.may_start), key=lambda e: e.attempt)
    ahead = [e for e in tried if e.starts == e.tasks or e.reserved]
    for holder in [e for e in tried if e.reserved]:
        own = [e for e in ahead if e.leaf == holder.leaf and not e.reserved and e.attempt > holder.attempt]
        ahead = [e for e in ahead if e not in own]
        place = ahead.index(holder)
        ahead[place:place] = own
    partial = [e for e in tried if e not in ahead and e.starts > 0]
    blocked = [e for e in tried if e not in ahead and e.starts == 0]
    blocked.sort(key=lambda e: (e.place_open < 0, e.place_open))
    return [e.row for e in ahead + partial + blocked]
