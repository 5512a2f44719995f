"""A policy written back as text says the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair.config import Config
from slurmfair.config_file import parse_policy
from slurmfair.config_text import effective_yaml, reference
from tests.test_config_file import DESIGN

REPOSITORY = Path(__file__).parent.parent

EVERYTHING = """
version: 1
cycle: {interval: 0.25s}
job_priority: {qos: {no: 1}, comment: {pattern: "x\\\\d=(.)"}, nice_step: 10, accounts: {'a b': 2}, sources: [comment, accounts]}
unmatched: b.rest
pools:
  a: {partitions: [a], resource: [mem, gres/gpu], quotas: {rest: {match: {accounts: ['null', x:y]}}, deep: {
        match: [{users: [u]}, {qos: [q], partitions: [a]}], limit: {mem: 2T}, deserved: 7,
        quotas: {x: {match: {accounts: [z]}, deserved: {gres/gpu: 0.5}, weight: 0.25, priority: 0}}}}}
  b: {partitions: [b], quotas: {rest: {}, q: {match: {}}},
      fairshare: {preset: kai, window: {type: cron, cron: '*/5 1 * * *', timezone: Asia/Kolkata, anchor: 1960-02-29}}}
"""


def said(config: Config) -> Config:
    """Return a policy without what depends on how it was written."""
    return replace(config, source="", warnings=())


@pytest.mark.parametrize("text", [DESIGN, EVERYTHING])
def test_the_effective_policy_reads_back_equal(text: str) -> None:
    config = parse_policy(text, "p.yaml")
    again = parse_policy(effective_yaml(config), "q.yaml")
    assert said(again) == said(config)


names = st.text("abnoy019_-", min_size=1, max_size=4).filter(lambda name: name[0] != "-")
durations = st.sampled_from(["0s", "1s", "90m", "1.5h", "2-12", "2w"])
settings = {
    "weight": st.sampled_from([0, 0.1, 1, 2.5, 1e6]),
    "priority": st.integers(0, 10**9),
    "deserved": st.integers(0, 5),
    "limit": st.sampled_from([-1, 1000]),
    "policy": st.sampled_from(["fifo", "round_robin", "balance", "intelligent"]),
    "balance_timeout": durations,
    "starvation_guard": durations,
    "max_window": st.integers(0, 9),
    "high_blocks_low": st.booleans(),
    "fail_open": st.booleans(),
    "fifo_scope": st.sampled_from(["quota", "queue", "gres_type"]),
}


def policies() -> st.SearchStrategy[dict[str, object]]:
    """Return pools with a tree of quotas, each with a few settings; rules name users, one quota a user."""
    quota = st.fixed_dictionaries({}, optional=settings)
    level = st.dictionaries(names, quota, min_size=1, max_size=3)
    for _ in range(2):
        inner = st.fixed_dictionaries({"quotas": level}, optional=settings)
        level = st.dictionaries(names, quota | inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {"quotas": level}, optional={"policy": settings["policy"], "place_grace": st.just("1-0")}
    )


@given(policies())
def test_any_effective_policy_reads_back_equal(pool: dict[str, object]) -> None:
    text = json.dumps({"version": 1, "pools": {"p": {"partitions": ["a"], **pool}}})
    config = parse_policy(text, "p.yaml")
    assert said(parse_policy(effective_yaml(config), "q.yaml")) == said(config)


def test_lengths_of_time_are_shown_as_slurm_shows_them() -> None:
    assert "  interval: 00:00:10\n" in effective_yaml(parse_policy(DESIGN, "p.yaml"))
    assert "        size: 7-00:00:00\n" in effective_yaml(parse_policy(DESIGN, "p.yaml"))


def test_the_annotated_policy_is_read_without_a_warning() -> None:
    path = REPOSITORY / "conf" / "policy.yaml"
    config = parse_policy(path.read_text(), "policy.yaml")
    assert config.warnings == ()
    assert [pool.name for pool in config.pools] == ["h100"]


def test_the_reference_lists_every_key_as_the_schema_has_it() -> None:
    text = (REPOSITORY / "docs" / "policy-file.md").read_text()
    begin, end = "<!-- tables begin -->\n", "<!-- tables end -->"
    tables = text[text.index(begin) + len(begin) : text.index(end)]
    assert tables.strip() == reference().strip(), "run: python -m slurmfair.config_text"
