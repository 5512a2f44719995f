"""Carries out a plan: boring on purpose. What did not stick is seen in the next reading (SLURM.md 0.4)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slurmfair.model import Change
from slurmfair.slurm.cluster import Answer, Cluster, Result

log = logging.getLogger(__name__)

SLOW_CALL_S = 0.5  # Slurm's client library waits inside the call when requests are rate-limited (SLURM.md 8)
WARN_AFTER = 3  # refusals of one job in a row


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the changes of a cycle."""

    sent: int
    requests: int
    results: Counter[Result]
    put_off: int  # not sent: the cluster was slow or the time was up
    took_s: float
    done: tuple[Change, ...] = field(repr=False)


@dataclass(slots=True)
class Refusals:
    """How often in a row a job refused our writes; a warning names it once."""

    count: Counter[int] = field(default_factory=Counter)

    def note(self, change: Change, answer: Answer) -> None:
        if answer.ok:
            self.count.pop(change.job_id, None)
            return
        if answer.result is Result.MOVED_ON:
            return
        self.count[change.job_id] += 1
        if self.count[change.job_id] == WARN_AFTER:
            log.warning(
                "job refuses our writes job=%d times=%d error=%d message=%s",
                change.job_id,
                WARN_AFTER,
                answer.error,
                answer.message,
            )


def apply_changes(
    changes: Sequence[Change], cluster: Cluster, refusals: Refusals, time_limit_s: float
) -> Applied:
    """Send the changes in their order; stop early when Slurm slows down, the rest is decided anew next cycle.

    Raises:
        SlurmUnavailable, SlurmRefused: from the first call that meets it; earlier changes stand.
    """
    results: Counter[Result] = Counter()
    done: list[Change] = []
    requests = sent = 0
    began_s = time.monotonic()
    for change in changes:
        answer = cluster.write(change)
        refusals.note(change, answer)
        results[answer.result] += 1
        requests += answer.requests
        sent += 1
        if answer.ok:
            done.append(change)
            if change.cancel:
                log.warning("job cancelled job=%d why=%s", change.job_id, change.why)
        if answer.took_s > SLOW_CALL_S or time.monotonic() - began_s > time_limit_s:
            break
    took_s = time.monotonic() - began_s
    return Applied(sent, requests, results, len(changes) - sent, took_s, tuple(done))
