"""Jobs find their pool, their leaf and their priority."""

from __future__ import annotations

import time
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfair import matching
from slurmfair.config import Config, Pool
from slurmfair.config_file import parse_policy
from slurmfair.matching import job_priorities, leaf_of_jobs, quota_arrays
from slurmfair.model import Coded, JobTable
from tests.tables import jobs_of

POLICY = """
version: 1
unmatched: rest
pools:
  h100:
    partitions: [train, interactive]
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16, limit: 24, weight: 3}
      llm:
        match: {accounts: [llm]}
        quotas:
          eval: {match: [{accounts: [llm], qos: [normal]}, {accounts: [llm-eval]}], deserved: 4, priority: 7}
          dia: {match: {users: [dia], partitions: [interactive]}, deserved: 4}
      rest: {}
  a100:
    partitions: [old]
    resource: [gres/gpu, cpu]
    quotas:
      all: {match: {}, deserved: {cpu: 8}, limit: {gres/gpu: 2}}
"""


def policy(job_priority: str = "{}") -> Config:
    """Return the policy above with settings of job priority."""
    return parse_policy(POLICY + f"\njob_priority: {job_priority}\n", "p.yaml")


def place(**row: str) -> str | None:
    """Return the path of the leaf of one job, `leave` for a job of a pool that has none, None outside all pools."""
    config = policy()
    pool, leaf = leaf_of_jobs(
        config, jobs_of({"account": "", "user": "", "qos": "", "partition": "train"} | row)
    )
    if pool[0] < 0:
        assert leaf[0] == -1
        return None
    return f"{config.pools[pool[0]].name}:{config.pools[pool[0]].quotas[leaf[0]].path}"


def test_the_account_finds_the_leaf() -> None:
    assert place(account="vision") == "h100:vision"


def test_an_inner_quota_keeps_what_its_quotas_do_not_take() -> None:
    assert place(account="llm", qos="normal") == "h100:llm.eval"
    assert place(account="llm", qos="urgent") == "h100:llm.self"


def test_any_rule_of_a_list_will_do() -> None:
    assert place(account="llm-eval", qos="urgent") == "h100:llm.eval"


def test_the_first_rule_of_the_file_wins() -> None:
    assert place(account="vision", user="dia", partition="interactive") == "h100:vision"
    assert place(account="llm", user="dia", partition="interactive") == "h100:llm.dia"


def test_jobs_without_a_rule_go_where_unmatched_says() -> None:
    assert place(account="nobody") == "h100:rest"


def test_a_partition_of_no_pool_is_left_alone() -> None:
    assert place(account="vision", partition="cpu") is None


def test_several_partitions_are_compared_as_a_set() -> None:
    assert place(user="dia", partition="train,interactive") == "h100:llm.dia"
    assert place(user="dia", partition="interactive,train") == "h100:llm.dia"
    assert place(user="dia", partition="cpu,interactive") == "h100:llm.dia"
    assert place(user="dia", partition="train") == "h100:rest"


def test_a_job_with_partitions_of_two_pools_belongs_to_the_first_of_the_file() -> None:
    assert place(account="vision", partition="old,train") == "h100:vision"
    assert place(account="vision", partition="old") == "a100:all"


def test_no_jobs_give_no_places() -> None:
    pool, leaf = leaf_of_jobs(policy(), jobs_of())
    assert pool.shape == leaf.shape == (0,)
    assert job_priorities(policy(), jobs_of()).shape == (0,)


def slow_place(config: Config, account: str, user: str, qos: str, partition: str) -> tuple[int, int]:
    """Return pool and leaf by reading the rules in order."""
    for index, pool in enumerate(config.pools):
        if set(partition.split(",")) & set(pool.partitions):
            return index, slow_leaf(pool, account, user, qos, set(partition.split(",")))
    return -1, -1


def slow_leaf(pool: Pool, account: str, user: str, qos: str, partitions: set[str]) -> int:
    """Return the leaf of the first rule that matches."""
    for leaf, quota in enumerate(pool.quotas):
        for match in quota.matches:
            wanted = [
                (match.accounts, {account}),
                (match.users, {user}),
                (match.qos, {qos}),
                (match.partitions, partitions),
            ]
            if all(not names or names & had for names, had in wanted):
                return leaf
    return pool.unmatched


facts = st.fixed_dictionaries(
    {
        "account": st.sampled_from(["vision", "llm", "llm-eval", "x"]),
        "user": st.sampled_from(["dia", "eve", ""]),
        "qos": st.sampled_from(["normal", "urgent"]),
        "partition": st.sampled_from(["train", "interactive", "old", "cpu", "old,train", "cpu,interactive"]),
    }
)


@given(st.lists(facts, min_size=1, max_size=30))
def test_many_jobs_are_placed_as_each_alone(rows: list[dict[str, str]]) -> None:
    config = policy()
    pool, leaf = leaf_of_jobs(config, jobs_of(*rows))
    assert list(zip(pool.tolist(), leaf.tolist(), strict=True)) == [slow_place(config, **row) for row in rows]


@given(st.lists(facts, min_size=1, max_size=30))
def test_a_table_too_large_is_sorted_instead(rows: list[dict[str, str]]) -> None:
    jobs = jobs_of(*rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_SMALL_TABLE", 0)
        by_sorting = leaf_of_jobs(policy(), jobs)
    by_table = leaf_of_jobs(policy(), jobs)
    assert [column.tolist() for column in by_sorting] == [column.tolist() for column in by_table]


def test_quotas_become_arrays_in_the_order_of_the_pool() -> None:
    quotas = quota_arrays(policy().pools[0])
    assert quotas.path == ("vision", "llm", "llm.eval", "llm.dia", "llm.self", "rest")
    assert quotas.parent.tolist() == [-1, -1, 1, 1, 1, -1]
    assert quotas.deserved.tolist() == [[16], [8], [4], [4], [0], [0]]
    assert quotas.limit.tolist() == [[24]] + [[np.inf]] * 5
    assert quotas.weight.tolist() == [3, 1, 1, 1, 1, 1]
    assert quotas.priority.tolist() == [100, 100, 7, 100, 7, 100]


def test_several_resources_stand_side_by_side() -> None:
    quotas = quota_arrays(policy().pools[1])
    assert quotas.resources == (0, 1)
    assert quotas.deserved.tolist() == [[0, 8]]
    assert quotas.limit.tolist() == [[2, np.inf]]


def priority(settings: str, **row: str | int) -> int:
    """Return the priority of one job."""
    return int(job_priorities(policy(settings), jobs_of({"account": "a", "qos": "normal"} | row))[0])


COMMENT = "{qos: {urgent: 9}, comment: {pattern: 'prio=(-?[0-9a-f]+)', max: {qos: {normal: 6}, default: 3}}, accounts: {a: 4}}"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"qos": "urgent", "comment": "prio=1"}, 9),
        ({"comment": "x prio=5"}, 5),
        ({"comment": "prio=9"}, 6),
        ({"comment": "prio=0"}, 1),
        ({"comment": "prio=99999999999999999999999"}, 6),
        ({"comment": "prio=abc"}, 4),
        ({"comment": "prio=-3"}, 4),
        ({"comment": "prio=9", "qos": "other"}, 3),
        ({"comment": ""}, 4),
        ({"account": "b"}, 5),
    ],
)
def test_the_first_source_that_gives_a_number_wins(row: dict[str, str | int], expected: int) -> None:
    assert priority(COMMENT, **row) == expected


def test_sources_are_asked_in_the_order_of_the_policy() -> None:
    settings = "{qos: {normal: 4}, comment: {pattern: 'prio=(.)'}, sources: [comment, qos]}"
    assert priority(settings, comment="prio=8") == 8
    assert priority(settings) == 4


@pytest.mark.parametrize(
    ("nice", "expected"), [(0, 6), (99, 6), (100, 5), (250, 4), (99999, 1), (-100, 7), (-9999, 9)]
)
def test_nice_moves_the_default_by_whole_steps(nice: int, expected: int) -> None:
    assert priority("{nice_step: 100, default: 6}", nice=nice) == expected


def test_a_hundred_thousand_jobs_are_placed_quickly() -> None:
    """PERFORMANCE gives the whole decision 12 ms; here only a bound that a busy machine keeps."""
    n = 100_000
    quotas = "".join(
        f"\n      q{i}: {{match: {{accounts: [a{i}], qos: [q{i % 5}, q{(i + 1) % 5}]}}}}" for i in range(100)
    )
    text = f"version: 1\njob_priority: {{qos: {{q1: 3}}, comment: {{pattern: 'prio=(.)'}}}}\npools:\n  p:\n    partitions: [p0, p1]\n    quotas:{quotas}\n"
    config = parse_policy(text, "p.yaml")
    rng = np.random.default_rng(1)
    jobs = jobs_of(*[{"account": "a0"}] * n)
    sizes = {"account": 120, "user": 3000, "qos": 8, "partition": 4, "comment": 1000}
    columns = {field.name: getattr(jobs, field.name) for field in fields(JobTable)}
    for name, size in sizes.items():
        values = tuple(f"{name[0]}{i}" for i in range(size))
        columns[name] = Coded(rng.integers(0, size, n).astype(np.int32), values)
    jobs = JobTable(**columns)
    taken_s = []
    for _ in range(5):
        begun = time.process_time()
        leaf_of_jobs(config, jobs)
        job_priorities(config, jobs)
        taken_s.append(time.process_time() - begun)
    assert min(taken_s) < 0.1
    print(f"best of 5: {min(taken_s) * 1e3:.1f} ms")
