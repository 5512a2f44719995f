"""A rule is refused exactly when no job can reach it."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from slurmfair import config_rules
from slurmfair.config import Match
from slurmfair.config_rules import RuleIndex

PARTITIONS = ("p", "q")
JOBS = list(product("abz", "uvz", "nmz", [{"p"}, {"q"}, {"p", "q"}]))

matches = st.builds(
    Match,
    accounts=st.frozensets(st.sampled_from("ab")),
    users=st.frozensets(st.sampled_from("uv")),
    qos=st.frozensets(st.sampled_from("nm")),
    partitions=st.frozensets(st.sampled_from("pq")),
)


def takes(match: Match, job: tuple[str, str, str, set[str]]) -> bool:
    """Whether a job meets a rule."""
    account, user, qos, partitions = job
    wanted = [
        (match.accounts, {account}),
        (match.users, {user}),
        (match.qos, {qos}),
        (match.partitions, partitions),
    ]
    return all(not listed or listed & had for listed, had in wanted)


@given(st.lists(matches, min_size=1, max_size=8))
@example([Match(partitions=frozenset("p")), Match(partitions=frozenset("q")), Match(accounts=frozenset("a"))])
def test_a_rule_is_refused_exactly_when_earlier_rules_take_all_its_jobs(rules: list[Match]) -> None:
    index = RuleIndex()
    for line, rule in enumerate(rules):
        taker = index.add(rule, line, PARTITIONS)
        left = [
            job
            for job in JOBS
            if takes(rule, job) and not any(takes(earlier, job) for earlier in rules[:line])
        ]
        assert (taker is None) == bool(left)
        assert taker is None or taker < line


@given(st.lists(matches, min_size=2, max_size=8))
def test_rules_too_long_to_look_at_each_job_are_never_refused_wrongly(rules: list[Match]) -> None:
    index = RuleIndex()
    most = config_rules.MOST_POINTS
    config_rules.MOST_POINTS = 0
    try:
        for line, rule in enumerate(rules):
            if index.add(rule, line, PARTITIONS) is not None:
                assert all(
                    any(takes(earlier, job) for earlier in rules[:line]) for job in JOBS if takes(rule, job)
                )
    finally:
        config_rules.MOST_POINTS = most
