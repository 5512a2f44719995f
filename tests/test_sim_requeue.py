"""Whose requeue it was decides about a job's place (SEMANTICS 3): accounting tells, some time later."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.history import RETRY_S
from tests.sim_daemon import SimDaemon, machines, submit

POLICY = """
version: 1
pools:
  gpu:
    partitions: [train]
    resource: gres/gpu
    policy: fifo
    quotas:
      a: {match: {accounts: [a]}, deserved: 16}
"""


class Site:
    """Two nodes: one taken, the other with a job whose order time is asked for while another one waits."""

    def __init__(self, folder: Path) -> None:
        self.sim = machines(8, 8)
        self.daemon = SimDaemon(self.sim, POLICY, folder)
        _, self.job = submit(self.sim, "a", 2, gpus=8)
        self.daemon.run(60)
        (self.other,) = submit(self.sim, "a", gpus=8)
        self.daemon.run(60)

    def order(self) -> list[int]:
        """Return the waiting jobs, first in line first."""
        queue = self.daemon.cycle().pools[0].queue
        return [job_id for _, job_id in sorted(zip(queue.order_s, queue.entry_id, strict=True))]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_a_person_had_requeued_goes_to_the_end_once_accounting_tells(
    site: Site, restarted: bool
) -> None:
    site.sim.admin.requeue(site.job)
    site.sim.admin.lose_node("gpu02")
    if restarted:
        site.daemon.restart()
    site.daemon.run(3 * RETRY_S)
    assert site.order() == [site.other, site.job]
    site.daemon.restart()
    assert site.order() == [site.other, site.job]


def test_a_job_that_lost_its_node_keeps_its_place(site: Site) -> None:
    site.sim.admin.lose_node("gpu02")
    site.daemon.run(3 * RETRY_S)
    assert site.order() == [site.job, site.other]
