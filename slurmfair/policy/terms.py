"""What a policy is given and what it answers (DESIGN 3a: a policy is data)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from slurmfair.config import QueuePolicy
from slurmfair.model import UNSET_S, Bools, Bytes, Closes, Codes, Floats, Ints, Queue

Kind = TypeVar("Kind", bound=np.generic)
Number: TypeAlias = int | float | bool

NOTHING, LANE, QUOTA = (np.uint8(code) for code in (Closes.NOTHING, Closes.LANE, Closes.QUOTA))


@dataclass(frozen=True, slots=True)
class Settings:
    """The policies of all quotas, one column a setting, shape (n_quotas,)."""

    name: Codes  # place of the policy in the tuple of names given to `settings_of`
    by_submit: Bools
    timeout_s: Floats
    max_window: Ints
    high_threshold: Ints
    high_blocks_low: Bools
    aging_interval_s: Floats
    aging_cap: Ints
    linear: Bools
    guard_s: Floats
    blocks_when_never_fit: Bools
    by_gpu_type: Bools


def settings_of(policies: Sequence[QueuePolicy], names: Sequence[str]) -> Settings:
    """Return the settings as columns. Quotas mostly share a few policies, so each is read once."""
    place: dict[int, int] = {}
    code = np.array([place.setdefault(id(policy), len(place)) for policy in policies], np.int64)
    distinct = list({id(policy): policy for policy in policies}.values())

    def column(values: list[Number], kind: type[Kind]) -> npt.NDArray[Kind]:
        return np.array(values, dtype=kind).take(code)

    return Settings(
        name=column([names.index(p.name) for p in distinct], np.int32),
        by_submit=column([p.order == "submit" for p in distinct], np.bool_),
        timeout_s=column([p.balance_timeout_s for p in distinct], np.float64),
        max_window=column([p.max_window * (p.name == "balance") for p in distinct], np.int64),
        high_threshold=column([p.high_threshold for p in distinct], np.int64),
        high_blocks_low=column([p.high_blocks_low for p in distinct], np.bool_),
        aging_interval_s=column([p.aging_interval_s for p in distinct], np.float64),
        aging_cap=column([min(p.aging_cap, p.high_threshold - 1) for p in distinct], np.int64),
        linear=column([p.aging_mode == "linear" for p in distinct], np.bool_),
        guard_s=column([p.starvation_guard_s * (p.name == "intelligent") for p in distinct], np.float64),
        blocks_when_never_fit=column([p.on_never_fit == "block" for p in distinct], np.bool_),
        by_gpu_type=column([p.fifo_scope == "gres_type" for p in distinct], np.bool_),
    )


@dataclass(frozen=True, slots=True)
class Waiting:
    """Entries whose quotas have one policy in common (by name): some rows of a queue, gathered when asked for."""

    queue: Queue
    rows: Ints
    leaf: Ints

    @property
    def job_priority(self) -> Ints:
        return self.queue.job_priority.take(self.rows)

    @property
    def waiting_since_s(self) -> Ints:
        return self.queue.waiting_since_s.take(self.rows)

    @property
    def first_attempt_s(self) -> Ints:
        return self.queue.first_attempt_s.take(self.rows)


class Judgement(NamedTuple):
    """What a policy says about its entries, shape (n,), or one code for all of them."""

    closes: Bytes | np.uint8  # Closes: what a failed attempt closes
    closes_fresh: Bytes | np.uint8  # the same after a task of the entry has started in this pass
    effective: Floats | None = None  # effective priority, shown to people; None: the job's own
    rank: Floats | None = None  # sorted by this, greatest first; None: by priority or submission, as set
    lane: Codes | None = None  # what `Closes.LANE` closes; None: there is but one


@dataclass(frozen=True, slots=True)
class Judged:
    """What the policies say about all entries of a queue, shape (n,)."""

    effective: Floats
    rank: Floats
    closes: Bytes
    closes_fresh: Bytes
    lane: Codes

    def note(self, rows: Ints, said: Judgement) -> None:
        """Write what one policy says about some rows."""
        self.closes[rows] = said.closes
        self.closes_fresh[rows] = said.closes_fresh
        if said.effective is not None:
            self.effective[rows] = said.effective
        if said.rank is not None:
            self.rank[rows] = said.rank
        if said.lane is not None:
            self.lane[rows] = said.lane


def judged_by_priority(queue: Queue, settings: Settings) -> Judged:
    """Return columns in which every entry has its own priority and stands by it, or by its submission."""
    n = len(queue)
    effective = queue.job_priority.astype(np.float64)
    rank = effective
    if settings.by_submit.any():
        rank = np.where(settings.by_submit.take(queue.leaf), 0.0, effective)
    return Judged(effective, rank, np.empty(n, np.uint8), np.empty(n, np.uint8), np.zeros(n, np.int32))


Policy: TypeAlias = Callable[[Waiting, Settings, int], Judgement]


def expired(since_s: Ints, timeout_s: Floats, now_s: int) -> Bools:
    """Tell which times have been set at least `timeout_s` ago; expiry is inclusive (SEMANTICS 3)."""
    return np.asarray((since_s != UNSET_S) & (now_s - since_s >= timeout_s))
