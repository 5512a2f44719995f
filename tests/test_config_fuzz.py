"""Whatever stands in the file: a Config or a PolicyError, never anything else."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurmfair.config import Config
from slurmfair.config_file import load_policy, parse_policy
from slurmfair.config_schema import (
    ALL_FAIRSHARE_ROWS,
    ALL_POOL_ROWS,
    ALL_QUOTA_ROWS,
    JOB_PRIORITY_ROWS,
    MATCH_ROWS,
    TOP_ROWS,
)
from slurmfair.errors import PolicyError
from slurmfair.overrides import Told, overridden
from tests.test_config_file import DESIGN

KEYS = sorted(
    {
        part
        for rows in (
            TOP_ROWS,
            ALL_POOL_ROWS,
            ALL_QUOTA_ROWS,
            ALL_FAIRSHARE_ROWS,
            JOB_PRIORITY_ROWS,
            MATCH_ROWS,
        )
        for row in rows
        for name in (row.key, *row.aliases)
        for part in name.split(".")
    }
)
WORDS = ["yes", "~", "", "-1", "0", "1", "3.5", "1e400", "7d", "UNLIMITED", "-5m", "fifo", "cron", "0 0 * * 1", "gres/gpu", "p.q", "{}", "[]"]  # fmt: skip

scalars = (
    st.sampled_from(WORDS) | st.integers() | st.floats() | st.booleans() | st.none() | st.text(max_size=8)
)
trees = st.recursive(
    scalars,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), below, max_size=6)
    ),
    max_leaves=25,
)
policies = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "pools": st.fixed_dictionaries({"p": st.dictionaries(st.sampled_from(KEYS), trees, max_size=6)}),
    },
    optional=dict.fromkeys(("cycle", "ranks", "job_priority", "unmatched", "fail_open_after"), trees),
)


def outcome(text: str) -> Config | list[str]:
    """Return what a text gives, a policy or its mistakes; anything else is the failure looked for."""
    try:
        return parse_policy(text, "p.yaml")
    except PolicyError as err:
        assert err.problems
        assert all(problem.startswith("p.yaml:") and "\n" not in problem for problem in err.problems)
        return err.problems


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_give_a_policy_or_its_mistakes(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(raw)
    try:
        assert isinstance(load_policy(path), Config)
    except PolicyError as err:
        assert err.problems


@given(st.text(st.sampled_from("ab:{}[],-&*!<|>'\"%@`#? \n\t\\0\x85\ufeff"), max_size=60))
@example("a: !<x> b")
@example("%YAML 9.9\n---\na: 1")
@example("a: |\n  text\n ")
@example('a: "\\x"')
def test_any_text_gives_a_policy_or_its_mistakes(text: str) -> None:
    assert outcome(text)


@given(
    st.integers(0, len(DESIGN)),
    st.integers(0, 12),
    st.text("ab:{}[],-&*! \n\t0", max_size=6) | st.sampled_from(WORDS),
)
def test_a_damaged_policy_gives_a_policy_or_its_mistakes(at: int, cut: int, put: str) -> None:
    assert outcome(DESIGN[:at] + put + DESIGN[at + cut :])


@given(policies | trees)
@example({"version": 1, "pools": {}, "cycle": {"<<": None}})
def test_any_tree_of_known_keys_gives_a_policy_or_its_mistakes(tree: object) -> None:
    assert outcome(json.dumps(tree))
    assert outcome(json.dumps(tree, ensure_ascii=False, indent=1))


@given(
    st.sampled_from(KEYS) | st.text(max_size=9),
    st.sampled_from(WORDS) | st.text(max_size=9),
    st.sampled_from(["", "vision.", "llm.eval.", "fairshare."]),
)
def test_any_override_gives_a_policy_or_its_mistakes(key: str, value: str, before: str) -> None:
    try:
        assert overridden(parse_policy(DESIGN, "p.yaml"), [Told("h100", before + key, value)])
    except PolicyError as err:
        assert all(problem.startswith("set h100 ") for problem in err.problems)
