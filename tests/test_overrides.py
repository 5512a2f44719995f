"""Settings changed at run time are checked as the file is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmfair.config import Config
from slurmfair.config_file import parse_policy
from slurmfair.errors import PolicyError
from slurmfair.overrides import Told, full_key, overridden, overridden_where_possible
from tests.test_config_file import DESIGN


def policy() -> Config:
    """Return the policy of the design."""
    return parse_policy(DESIGN, "p.yaml")


def with_set(*settings: str) -> Config:
    """Return the policy of the design with `key=value` set in its pool."""
    return overridden(policy(), [Told("h100", *setting.split("=", 1)) for setting in settings])


def refused(*settings: str) -> list[str]:
    """Return why settings are refused."""
    with pytest.raises(PolicyError) as err:
        with_set(*settings)
    return err.value.problems


def test_fair_share_is_switched_and_tuned() -> None:
    fairshare = (
        with_set("fairshare.enabled=false", "k=4", "half_life=2d", "window.type=tumbling", "window.size=1w")
        .pools[0]
        .fairshare
    )
    assert (fairshare.enabled, fairshare.k, fairshare.half_life_s) == (False, 4, 172800)
    assert (fairshare.window.type, fairshare.window.size_s) == ("tumbling", 604800)


def test_a_pool_without_fair_share_can_be_given_it() -> None:
    bare = parse_policy("version: 1\npools: {p: {partitions: [a], quotas: {q: {match: {}}}}}", "p.yaml")
    assert overridden(bare, [Told("p", "fairshare.enabled", "true")]).pools[0].fairshare.enabled


def test_quotas_change_and_those_below_inherit() -> None:
    quotas = {
        q.path: q
        for q in with_set("vision.weight=5", "vision.deserved=20", "llm.policy=fifo", "llm.eval.limit=4")
        .pools[0]
        .quotas
    }
    assert (quotas["vision"].weight, quotas["vision"].deserved) == (5, (20,))
    assert [quotas[path].policy.name for path in ("llm", "llm.pretrain", "llm.eval")] == [
        "fifo",
        "fifo",
        "round_robin",
    ]
    assert quotas["llm.eval"].limit == (4,)


def test_parameters_of_a_policy_change_for_a_pool() -> None:
    assert {q.policy.aging_interval_s for q in with_set("aging_interval=90s").pools[0].quotas} == {90}


def test_the_rest_of_the_policy_stays() -> None:
    before, after = policy(), with_set("k=2")
    assert (after.cycle, after.job_priority, after.pools[0].quotas) == (
        before.cycle,
        before.job_priority,
        before.pools[0].quotas,
    )
    assert (after.source, after.text) == (before.source, before.text)


def test_no_overrides_leave_the_policy_as_it_is() -> None:
    config = policy()
    assert overridden(config, []) is config


def test_overrides_start_from_the_file_each_time() -> None:
    assert overridden(with_set("k=9"), [Told("h100", "vision.weight", "1")]).pools[0].fairshare.k == 1


def test_the_last_of_two_values_wins() -> None:
    assert with_set("k=2", "fairshare.k=3").pools[0].fairshare.k == 3


def test_an_override_wins_over_an_alias_in_the_file() -> None:
    text = DESIGN.replace("k: 1.0,", "historicalUsageWeight: 7,")
    assert overridden(parse_policy(text, "p.yaml"), [Told("h100", "k", "2")]).pools[0].fairshare.k == 2


def test_amounts_by_resource_are_yaml() -> None:
    assert with_set("vision.limit={gres/gpu: 30}").pools[0].quotas[0].limit == (30,)


@pytest.mark.parametrize(
    ("key", "full"),
    [
        ("k", "pools.h100.fairshare.k"),
        ("historicalUsageWeight", "pools.h100.fairshare.k"),
        ("time_based_fairshare.k", "pools.h100.fairshare.k"),
        ("window.size", "pools.h100.fairshare.window.size"),
        ("place_grace", "pools.h100.place_grace"),
        ("policy", "pools.h100.policy"),
        ("llm.eval.weight", "pools.h100.quotas.llm.quotas.eval.weight"),
        ("quotas.llm.quotas.eval.weight", "pools.h100.quotas.llm.quotas.eval.weight"),
    ],
)
def test_a_setting_has_one_full_name(key: str, full: str) -> None:
    assert full_key(policy(), "h100", key) == full


REFUSED = [
    ("k=yes", "pools.h100.fairshare.k: yes means true or false"),
    ("k=-1", "pools.h100.fairshare.k: -1 is negative"),
    ("k=", "pools.h100.fairshare.k: no value"),
    ("fairshare.enabled=1", "pools.h100.fairshare.enabled: '1' is neither true nor false"),
    ("half_life=soon", "pools.h100.fairshare.half_life: 'soon' is not a length of time"),
    ("window.type=cron", "pools.h100.fairshare.window: type is cron, but there is no cron line"),
    ("vision.limit=4", "pools.h100.quotas.vision.limit: limit 4 is below deserved 16"),
    ("vision.weight=3 GPUs", "pools.h100.quotas.vision.weight: '3 GPUs' is not a number"),
    ("llm.limit=4", "pools.h100.quotas.llm: its quotas deserve 8 gres/gpu together, above its limit 4"),
    ("vision.weight={a: 1, a: 2}", "a: given twice"),
]


@pytest.mark.parametrize(("setting", "told"), REFUSED)
def test_a_wrong_value_is_refused_and_names_its_override(setting: str, told: str) -> None:
    assert refused(setting)[0].startswith(f"set h100 {setting}: {told}")


UNKNOWN = [
    ("kk=1", "set h100 kk: unknown setting; use one of: place_grace"),
    (
        "fairshare.halflife=1",
        "set h100 fairshare.halflife: unknown setting; did you mean fairshare.half_life?",
    ),
    ("vision.wieght=1", "set h100 vision.wieght: unknown setting 'wieght' of a quota; did you mean weight?"),
    ("visoin.weight=1", "set h100 visoin.weight: unknown quota 'visoin'; did you mean vision?"),
    ("llm.evil.weight=1", "set h100 llm.evil.weight: unknown quota 'llm.evil'; did you mean llm.eval?"),
    ("vision.match={}", "set h100 vision.match: unknown setting 'match' of a quota"),
    ("partitions=[a]", "set h100 partitions: unknown setting"),
    ("quotas=1", "set h100 quotas: unknown setting"),
    ("=1", "set h100 : unknown setting"),
]


@pytest.mark.parametrize(("setting", "told"), UNKNOWN)
def test_what_cannot_be_set_is_refused_with_the_nearest_name(setting: str, told: str) -> None:
    assert refused(setting)[0].startswith(told)


def test_all_wrong_overrides_are_told_at_once() -> None:
    assert len(refused("k=yes", "vision.weight=x")) == 2
    assert len(refused("kk=1", "visoin.weight=x")) == 2


def test_an_unknown_pool_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"set h10: unknown pool; did you mean h100\?"):
        overridden(policy(), [Told("h10", "k", "1")])


def test_overrides_that_a_new_file_cannot_bear_are_left_out_and_told() -> None:
    settings = [
        Told("h100", "k", "2"),
        Told("h100", "gone.weight", "1"),
        Told("h100", "vision.limit", "1"),
        Told("h100", "llm.weight", "9"),
    ]
    config, problems = overridden_where_possible(policy(), settings)
    assert (config.pools[0].fairshare.k, config.pools[0].quotas[1].weight) == (2, 9)
    assert [problem.split(": ")[0] for problem in problems] == [
        "set h100 gone.weight",
        "set h100 vision.limit=1",
    ]
    assert problems[0].endswith("end it with: slurmfair unset h100 gone.weight")


def test_a_policy_that_was_not_read_from_text_can_be_changed() -> None:
    assert overridden(replace(policy(), text=""), [Told("h100", "k", "2")]).pools[0].fairshare.k == 2
