"""Waiting jobs in the order in which both schedulers look at them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

Entry = tuple[int, int, int, str]  # minus tier, minus priority, job id, partition


class Queue:
    """Entries sorted: by tier of the partition, then priority, then id. A job has one entry a partition."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._of_job: dict[int, tuple[Entry, ...]] = {}

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._of_job

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries as they stand now."""
        return tuple(self._entries)

    def put(self, job_id: int, priority: int, partitions: Iterable[tuple[int, str]]) -> None:
        """Enter a job that is not in the queue; partitions as (tier, name)."""
        entries = tuple((-tier, -priority, job_id, name) for tier, name in partitions)
        for entry in entries:
            insort(self._entries, entry)
        self._of_job[job_id] = entries

    def drop(self, job_id: int) -> None:
        """Take a job out, if it is in."""
        for entry in self._of_job.pop(job_id, ()):
            del self._entries[bisect_left(self._entries, entry)]
