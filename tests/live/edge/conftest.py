"""The labs and agents that the live tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.lab import Lab
from tests.live.agent import Agent
from tests.test_lab import NO_LAB

TRACKED = "gres/gpu,gres/gpu:h100,gres/gpu:a100,gres/shard"


@pytest.fixture(scope="session")
def edge_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Return a lab with shards and scrontab, and the project installed."""
    if NO_LAB is not None:
        pytest.skip(NO_LAB)
    if running := os.environ.get(
        "SLURMFAIR_EDGE_LAB"
    ):  # a lab of one's own that runs already: quicker at work
        lab = Lab.attach(running)
        lab.install_project()
        yield lab
        return
    conf = {"AccountingStorageTRES": TRACKED, "ScronParameters": "enable"}
    with Lab(dir=tmp_path_factory.mktemp("edge"), name="edge", shards=16, conf=conf) as lab:
        lab.install_project()
        yield lab


@pytest.fixture
def lab(edge_lab: Lab) -> Lab:
    """Return the lab with an empty queue."""
    edge_lab.cancel_all()
    return edge_lab


@pytest.fixture
def edge(lab: Lab) -> Iterator[Agent]:
    """Return the edge of the daemon's own account."""
    with Agent(lab) as agent:
        yield agent
