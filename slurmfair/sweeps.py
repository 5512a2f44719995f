"""The past of a pool as two sweeps over the same events: one to now, one to where the window begins.

What lies between the two is what the window holds. Both add up the same numbers in the same order (see
_core/usage.pyx), so the difference is exact, and nothing is left of what has gone. A history costs only
what is new in a cycle; when the past itself has changed it is built afresh from the ledger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slurmfair._core import decay_tables, sweep
from slurmfair.events import StepTable, all_events, fresh_events, nodes_of, step_table
from slurmfair.fairshare import siblings
from slurmfair.ledger import RECENT_S, Ledger
from slurmfair.model import Codes, Floats, Ints, Quotas
from slurmfair.steps import Steps

LAG_S = 300  # live looks still correct the last minutes; they are added up afresh in each cycle
SHIFT_EVERY = 20  # half-lives
SMALLEST = math.ldexp(1.0, -960)  # GPU-seconds; less is 0
TICK_S = 1 << 17  # as in the kernel, like the numbers of the fields below
NEAR = 1 << 9
HELD, DESERVED, SINCE, ALLOCATED, OVER, NODE_FIELDS = 0, 1, 2, 3, 5, 8
INSIDE, GROUP_SINCE, SURPLUS, GROUP_FIELDS = 0, 1, 2, 4


@dataclass(frozen=True, slots=True)
class Integrals:
    """Integrals over the window, shape (n_quotas, n_resources) unless said otherwise."""

    now_s: int
    start_s: int
    allocated: Floats
    over_quota: Floats
    surplus: Floats  # of the quota's group of siblings
    capacity: Floats  # shape (n_resources,)
    held: Floats  # now, not over the window
    surplus_now: Floats  # of the quota's group of siblings; not over the window
    capacity_now: Floats  # shape (n_resources,); not over the window
    group: Codes  # shape (n_quotas,): siblings have the same number


@dataclass(frozen=True, slots=True)
class Decay:
    """Tables of the kernel for one half-life, 0 for none."""

    half_life_s: float
    far: Floats
    far_length: Floats
    near_length: Floats
    near: Floats


def decay_for(half_life_s: float, longest_s: int = TICK_S, n_near: int = NEAR) -> Decay:
    """Return tables that reach over `longest_s` in steps of `n_near` seconds, a power of two."""
    n_far = longest_s // n_near + 1
    decay = Decay(half_life_s, np.empty(n_far), np.empty(n_far), np.empty(n_near), np.empty(n_near))
    if half_life_s > 0:
        decay_tables(half_life_s, decay.far, decay.far_length, decay.near_length, decay.near)
    return decay


@dataclass(slots=True)
class Cursor:
    """How far a sweep has come, and its sums. Times are seconds since the origin of the history."""

    row: int  # next event of the log
    at: int
    next_tick: Ints  # shape (1,)
    nodes: Floats  # shape (n_resources, n_quotas, NODE_FIELDS)
    groups: Floats  # shape (n_resources, n_groups, GROUP_FIELDS)
    pool: Floats  # shape (n_resources, GROUP_FIELDS)

    def copy(self) -> Cursor:
        return replace(
            self,
            next_tick=self.next_tick.copy(),
            nodes=self.nodes.copy(),
            groups=self.groups.copy(),
            pool=self.pool.copy(),
        )

    def shift_by(self, half_lives: int) -> None:
        """Measure the sums in weights of a later moment."""
        for sums in (self.nodes[..., ALLOCATED:], self.groups[..., SURPLUS:], self.pool[..., SURPLUS:]):
            sums[...] = np.ldexp(sums, -half_lives)


@dataclass(frozen=True, slots=True)
class Tree:
    """The quotas as the kernel sees them."""

    parent: Codes  # shape (n_quotas,)
    group: Codes  # shape (n_quotas,): its own group of siblings, 0 for the top
    below: Codes  # shape (n_quotas,): the group of its children, -1 for none
    group_parent: Codes  # shape (n_groups,)


def tree_of(quotas: Quotas) -> Tree:
    n = len(quotas)
    groups = siblings(quotas)
    group = np.empty(n, dtype=np.int32)
    group[groups.rows] = np.repeat(np.arange(len(groups)), np.diff(groups.start))
    below = np.full(n + 1, -1, dtype=np.int32)
    below[groups.parent] = np.arange(len(groups))  # the top is row -1
    parent = np.ascontiguousarray(quotas.parent, dtype=np.int32)
    return Tree(parent, group, np.ascontiguousarray(below[:n]), groups.parent.astype(np.int32))


@dataclass(slots=True)
class History:
    """The past of one pool as far as it has been added up. It changes in place as time goes on."""

    quotas: Quotas
    tree: Tree
    decay: Decay
    origin_s: int
    shift: int  # half-lives since the origin that weights are measured in
    version: int  # of the ledger
    paths: tuple[str, ...]
    holding_node: Codes
    holding_amount: Floats
    steps: Steps
    step_table: StepTable
    log: Ints  # events in the order of time, in the first `logged` places
    logged: int
    head: Cursor  # at the latest moment that is certain
    tail: Cursor  # at the beginning of the window, or where the head is if that is earlier
    whole: bool  # false if the ledger's bulk had events after the head when it was built

    def follows(self, ledger: Ledger, steps: Steps, quotas: Quotas, half_life_s: float) -> bool:
        """Tell whether nothing has changed but what came after the head."""
        n = len(self.steps)
        head_s = self.origin_s + self.head.at
        return (
            self.whole
            and ledger.read_s - head_s <= RECENT_S
            and self.decay.half_life_s == half_life_s
            and _same_tree(self.quotas, quotas)
            and ledger.altered_since(self.version) > head_s
            and len(steps) >= n
            and steps.path[:n] == self.steps.path
            and np.array_equal(steps.time_s[:n], self.steps.time_s)
            and np.array_equal(steps.amounts[:n], self.steps.amounts)
            and bool((steps.time_s[n:] > head_s).all())
        )

    def take_in(self, ledger: Ledger, steps: Steps) -> None:
        """Learn the new holdings and steps."""
        self.version = ledger.version
        if len(self.holding_node) < len(ledger.holdings) or self.paths is not ledger.paths:
            self.paths = ledger.paths
            self.holding_node, self.holding_amount = holding_table(ledger, self.quotas)
        if len(steps) > len(self.steps):
            self.steps = steps
            self.step_table = step_table(steps, self.quotas, self.origin_s)

    def events(self, ledger: Ledger, after: int, until: int) -> Ints:
        """Return the events after and until two moments since the origin."""
        after_s, until_s = self.origin_s + after, self.origin_s + until
        return fresh_events(ledger, self.step_table, self.origin_s, after_s, until_s)

    def append(self, events: Ints) -> None:
        if self.logged + len(events) > len(self.log):
            used = self.log[self.tail.row : self.logged]  # what lies behind the tail is not needed again
            self.log = np.empty(2 * len(used) + len(events) + 1024, dtype=np.int64)
            self.log[: len(used)] = used
            self.logged = len(used)
            self.head.row -= self.tail.row
            self.tail.row = 0
        self.log[self.logged : self.logged + len(events)] = events
        self.logged += len(events)

    def sweep(self, cursor: Cursor, events: Ints, first: int, until: int, finish: bool) -> int:
        """Move a cursor over events to `until`; return the first one that is left."""
        cursor.at = until
        return sweep(
            events,
            first,
            until,
            finish,
            self.holding_node,
            self.holding_amount,
            self.step_table.node,
            self.step_table.amounts,
            self.tree.parent,
            self.tree.group,
            self.tree.below,
            self.tree.group_parent,
            self.decay.half_life_s,
            self.shift,
            self.decay.far,
            self.decay.far_length,
            self.decay.near_length,
            cursor.next_tick,
            cursor.nodes,
            cursor.groups,
            cursor.pool,
        )

    def shift_to(self, now: int) -> None:
        """Keep the weights of the present near 1."""
        if self.decay.half_life_s == 0:
            return
        half_lives = math.floor(now / self.decay.half_life_s) - self.shift
        if half_lives > SHIFT_EVERY:
            self.shift += half_lives
            self.head.shift_by(half_lives)
            self.tail.shift_by(half_lives)

    def read(self, ledger: Ledger, start_s: int, now_s: int) -> Integrals:
        """Add up to now and return the integrals over the window."""
        now, start = now_s - self.origin_s, start_s - self.origin_s
        self.shift_to(now)
        fresh = self.events(ledger, self.head.at, now)
        settled = max(self.head.at, now - LAG_S)
        certain = int(np.searchsorted(fresh, (settled + 1) << 32))
        self.append(fresh[:certain])
        fresh = fresh[certain:]
        self.head.row = self.sweep(self.head, self.log[: self.logged], self.head.row, settled, False)
        self.tail.row = self.sweep(
            self.tail, self.log[: self.logged], self.tail.row, min(start, settled), False
        )
        begin = (self.tail if start <= settled else self.head).copy()
        self.sweep(begin, fresh if start > settled else self.log[:0], 0, start, True)
        end = self.head.copy()
        self.sweep(end, fresh, 0, now, True)
        return self._difference(end, begin)

    def _difference(self, end: Cursor, begin: Cursor) -> Integrals:
        """Return what was added between two cursors that are brought up to date."""
        weight = 1.0
        if self.decay.half_life_s > 0:
            halvings = end.at / self.decay.half_life_s
            weight = math.ldexp(2.0 ** (halvings % 1.0), math.floor(halvings) - self.shift)
        surplus = _added(end.groups, begin.groups, SURPLUS, weight)
        nodes, groups = end.nodes, end.groups
        parent = self.tree.group_parent
        pools = np.maximum(nodes[:, parent, HELD], nodes[:, parent, DESERVED])
        pools[:, :1] = end.pool[:, :1]
        surplus_now = np.maximum(pools - groups[:, :, INSIDE], 0.0).T
        return Integrals(
            self.origin_s + end.at,
            self.origin_s + begin.at,
            _added(nodes, begin.nodes, ALLOCATED, weight),
            _added(nodes, begin.nodes, OVER, weight),
            surplus[self.tree.group],
            _added(end.pool, begin.pool, SURPLUS, weight),
            nodes[:, :, HELD].T.copy(),
            surplus_now[self.tree.group],
            end.pool[:, 0].copy(),
            self.tree.group,
        )


def _added(end: Floats, begin: Floats, field: int, weight: float) -> Floats:
    """Return the growth of a sum that is kept in two floats, in weights of now, resources last."""
    grown = (end[..., field] - begin[..., field]) + (end[..., field + 1] - begin[..., field + 1])
    grown /= weight
    grown[grown < SMALLEST] = 0.0
    return np.ascontiguousarray(grown.T)


def _same_tree(one: Quotas, other: Quotas) -> bool:
    return one is other or (
        one.path == other.path
        and one.resources == other.resources
        and np.array_equal(one.parent, other.parent)
        and np.array_equal(one.deserved, other.deserved)
    )


def holding_table(ledger: Ledger, quotas: Quotas) -> tuple[Codes, Floats]:
    """Return the quota and the amounts of each holding, only of the resources that are divided."""
    node = nodes_of(ledger.paths, quotas)[ledger.holdings.leaf]
    return node, np.ascontiguousarray(ledger.holdings.amounts[:, list(quotas.resources)])


def built(
    ledger: Ledger, steps: Steps, quotas: Quotas, half_life_s: float, start_s: int, now_s: int
) -> History:
    """Return the history from `start_s` to shortly before now, made from the ledger alone."""
    head_s = now_s - LAG_S
    origin_s = min(start_s, head_s)
    table = step_table(steps, quotas, origin_s)
    node, amounts = holding_table(ledger, quotas)
    events, n_events = all_events(ledger, table, origin_s, head_s)
    tree, n_resources = tree_of(quotas), len(quotas.resources)
    nodes = np.zeros((n_resources, len(quotas), NODE_FIELDS))
    nodes[:, :, DESERVED] = table.deserved.T
    pool = np.zeros((n_resources, GROUP_FIELDS))
    pool[:, 0] = table.capacity
    groups = np.zeros((n_resources, len(tree.group_parent), GROUP_FIELDS))
    cursor = Cursor(0, 0, np.array([TICK_S]), nodes, groups, pool)
    history = History(
        quotas,
        tree,
        decay_for(half_life_s),
        origin_s,
        math.floor((now_s - origin_s) / half_life_s) if half_life_s > 0 else 0,
        ledger.version,
        ledger.paths,
        node,
        amounts,
        steps,
        table,
        events,
        n_events,
        cursor,
        cursor.copy(),
        bool((ledger.closed.end_s <= head_s).all()),
    )
    history.head.row = history.sweep(history.head, events[:n_events], 0, head_s - origin_s, False)
    return history
