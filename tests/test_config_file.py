"""The policy file: what is read, and every way in which it can be wrong (DESIGN 4, CASES 11, 26, 41)."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import pytest
import yaml

from slurmfair import yaml_lines
from slurmfair.config import Config, Cycle, FairShare, JobPriority, Pool, Quota, Ranks, Window
from slurmfair.config_file import load_policy, parse_policy
from slurmfair.errors import PolicyError

DESIGN = """
version: 1
cycle: {interval: 10s, write_budget: 400, window: 500}     # RPCs a cycle
ranks: {channel: site_factor, high: 2000000000}
job_priority:
  qos: {urgent: 9, normal: 5, scavenger: 1}
  comment: {pattern: 'prio=([1-9])', max: {qos: {normal: 6}, default: 6}}
  default: 5
unmatched: leave
fail_open_after: 15m
pools:
  h100:
    partitions: [train, interactive]
    resource: gres/gpu
    fairshare: {enabled: true, k: 1.0, window: {type: sliding, size: 7d}, half_life: 0, usage: surplus, enforce: holdback}
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16, limit: 24, weight: 3, policy: balance, balance_timeout: 5m}
      llm:
        deserved: 8
        policy: intelligent
        quotas:
          pretrain: {match: {accounts: [llm-pretrain]}, deserved: 8, weight: 2}
          eval:     {match: {accounts: [llm-eval], qos: [normal]}, weight: 1, policy: round_robin}
"""


def pool_of(body: str, top: str = "") -> Pool:
    """Return the one pool of a policy, from the keys of the pool."""
    return policy_of(body, top).pools[0]


def policy_of(body: str, top: str = "") -> Config:
    """Return a policy with one pool of the given keys; `partitions` is there already."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return parse_policy(f"version: 1\n{top}\npools:\n  p:\n    partitions: [a, b]\n{lines}", "p.yaml")


def quotas_of(body: str) -> dict[str, Quota]:
    """Return quotas by path, from the inside of `quotas`."""
    lines = "".join(f"  {line}\n" for line in body.splitlines())
    return {quota.path: quota for quota in pool_of(f"quotas:\n{lines}").quotas}


def problems_of(text: str) -> list[str]:
    """Return the mistakes of a text that has some."""
    with pytest.raises(PolicyError) as refused:
        parse_policy(text, "p.yaml")
    return refused.value.problems


def mistakes_in(body: str) -> str:
    """Return the mistakes of a pool with these keys, one a line."""
    with pytest.raises(PolicyError) as refused:
        policy_of(body)
    return "\n".join(refused.value.problems)


ONE = "quotas: {q: {match: {accounts: [x]}}}"


def test_the_policy_of_the_design_is_read_without_a_word() -> None:
    config = parse_policy(DESIGN, "p.yaml")
    assert config.warnings == ()
    assert (config.cycle.interval_s, config.ranks.high, config.fail_open_after_s) == (10, 2_000_000_000, 900)
    assert config.job_priority.qos == {"urgent": 9, "normal": 5, "scavenger": 1}
    assert config.job_priority.comment_max_qos == {"normal": 6}
    (pool,) = config.pools
    assert (pool.partitions, pool.resources, pool.unmatched) == (("train", "interactive"), (0,), -1)
    assert pool.fairshare == FairShare(enabled=True)
    assert [(q.path, q.parent, q.deserved, q.limit, q.weight) for q in pool.quotas] == [
        ("vision", -1, (16,), (24,), 3),
        ("llm", -1, (8,), (math.inf,), 1),
        ("llm.pretrain", 1, (8,), (math.inf,), 2),
        ("llm.eval", 1, (0,), (math.inf,), 1),
    ]


def test_what_is_left_out_has_the_defaults_of_the_types() -> None:
    config = policy_of(ONE)
    assert (config.cycle, config.ranks, config.fail_open_after_s) == (Cycle(), Ranks(), 900)
    assert config.job_priority == JobPriority(qos={})
    assert config.pools[0].fairshare == FairShare()
    assert config.pools[0].quotas[0].policy.name == "balance"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10.1.0.2:6830", "10.1.0.2:6830"),
        ("ctl-1.site:65535", "ctl-1.site:65535"),
        ("'[::]:6830'", "[::]:6830"),
        ("0.0.0.0:1024", "0.0.0.0:1024"),
        ("off", ""),
    ],
)
def test_reports_may_be_asked_for_over_the_network(written: str, meant: str) -> None:
    assert policy_of(ONE, f"reports: {{listen: {written}}}").reports.listen == meant
    assert policy_of(ONE).reports.listen == ""


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("ctl", "'ctl': not HOST:PORT, such as"),
        ("6830", "'6830': not HOST:PORT"),
        ("':6830'", "':6830': not HOST:PORT"),
        ("ctl:http", "not HOST:PORT"),
        ("ctl:80", "port 80 is for root alone; take one from 1024"),
        ("ctl:70000", "port 70000 is not one from 1 to 65535"),
        ("300.1.1.1:6830", "300.1.1.1 is neither a host's name nor an address"),
        ("'fd00::2:6830'", "fd00::2 is neither a host's name nor an address; write HOST:PORT, such as 10.1.0.2:6830 or [fd00::2]"),
        ("'c t l:6830'", "neither a host's name"),
        ("[ctl:6830]", "a list where HOST:PORT"),
        ("", "no value; give HOST:PORT"),
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_told_with_its_line(written: str, told: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy_of(ONE, f"\nreports:\n  listen: {written}\n")
    assert caught.value.problems[0].startswith("p.yaml:4: reports.listen: ")
    assert told in caught.value.problems[0]


def test_policy_settings_come_from_the_nearest_quota_above_that_sets_them() -> None:
    pool = pool_of(
        "policy: fifo\naging_interval: 2h\n"
        "quotas:\n"
        "  a: {match: {accounts: [a]}}\n"
        "  b:\n"
        "    policy: intelligent\n"
        "    fail_open: false\n"
        "    quotas:\n"
        "      c: {match: {accounts: [c]}, aging_interval: 3h}\n"
        "      d: {match: {accounts: [d]}, policy: round_robin, fail_open: true}\n"
    )
    policies = {q.path: (q.policy.name, q.policy.aging_interval_s, q.fail_open) for q in pool.quotas}
    assert policies == {
        "a": ("fifo", 7200, True),
        "b": ("intelligent", 7200, False),
        "b.c": ("intelligent", 10800, False),
        "b.d": ("round_robin", 7200, True),
    }


def test_weight_and_priority_are_not_inherited() -> None:
    quotas = quotas_of("a: {weight: 4, priority: 7, quotas: {b: {match: {accounts: [b]}}}}")
    assert (quotas["a.b"].weight, quotas["a.b"].priority) == (1, 100)


def test_an_inner_quota_with_a_rule_gets_a_leaf_for_its_own_jobs_behind_its_quotas() -> None:
    quotas = quotas_of(
        "a: {match: {accounts: [a]}, deserved: 9, limit: 9, weight: 4, policy: fifo,\n"
        "    quotas: {b: {match: {accounts: [b]}, priority: 7}, c: {match: {accounts: [c]}, priority: 9}}}"
    )
    assert list(quotas) == ["a", "a.b", "a.c", "a.self"]
    own = quotas["a.self"]
    assert (own.parent, own.is_leaf, own.deserved, own.limit, own.weight, own.priority) == (
        0,
        True,
        (0,),
        (math.inf,),
        1,
        7,
    )
    assert own.matches[0].accounts == {"a"}
    assert (quotas["a"].matches, quotas["a"].is_leaf, own.policy.name) == ((), False, "fifo")


def test_an_inner_quota_deserves_what_its_quotas_do_unless_it_says_otherwise() -> None:
    body = "quotas: {b: {match: {accounts: [b]}, deserved: 3}, c: {match: {accounts: [c]}, deserved: 4}}"
    assert quotas_of(f"a: {{{body}}}")["a"].deserved == (7,)
    assert quotas_of(f"a: {{deserved: 9, {body}}}")["a"].deserved == (9,)
    assert quotas_of(f"x: {{quotas: {{a: {{{body}}}}}}}")["x"].deserved == (7,)


def test_amounts_are_numbers_of_the_main_resource_or_named() -> None:
    pool = pool_of(
        "resource: [cpu, mem, gres/gpu]\n"
        "quotas:\n"
        "  a: {match: {accounts: [a]}, deserved: 3, limit: {mem: 1.5G, cpu: -1}}\n"
        "  b: {match: {accounts: [b]}, deserved: {gres/gpu: 2, mem: 100}, limit: -1}\n"
    )
    assert pool.resources == (1, 2, 0)
    assert [q.deserved for q in pool.quotas] == [(3, 0, 0), (0, 100, 2)]
    assert [q.limit for q in pool.quotas] == [(math.inf, 1536, math.inf), (math.inf, math.inf, math.inf)]


def test_names_that_yaml_would_misread_stay_names() -> None:
    quota = quotas_of("no: {match: {accounts: [no, 12, 1:00:00, 'null', 1e3]}}")["no"]
    assert quota.matches[0].accounts == {"no", "12", "1:00:00", "null", "1e3"}


FAIRSHARE_ALIASES = """
time_based_fairshare: {enabled: true, historicalUsageWeight: 4, decayHalfLife: 2d, windowType: tumbling,
  windowDuration: 1w, tumblingWindowStartTime: 2026-01-05T00:00:00Z, usage_basis: total}
"""


def test_the_names_of_run_ai_are_understood() -> None:
    fairshare = pool_of(FAIRSHARE_ALIASES + ONE).fairshare
    window = Window(type="tumbling", size_s=604800, anchor_s=1767571200)
    assert fairshare == FairShare(enabled=True, k=4, half_life_s=172800, usage="total", window=window)


def test_preset_kai_counts_total_use_unless_told_otherwise() -> None:
    assert pool_of("fairshare: {preset: kai}\n" + ONE).fairshare.usage == "total"
    assert pool_of("fairshare: {preset: kai, usage: surplus}\n" + ONE).fairshare.usage == "surplus"


def test_cron_windows_have_a_line_and_a_time_zone() -> None:
    window = pool_of(
        "fairshare: {window: {type: cron, cron: '0 0 * * 1', timezone: Europe/Berlin}}\n" + ONE
    ).fairshare.window
    assert (window.type, window.cron, window.timezone) == ("cron", "0 0 * * 1", "Europe/Berlin")


def test_cron_windows_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    told = mistakes_in("fairshare: {window: {type: cron, cron: '0 0 * * 1'}}\n" + ONE)
    assert (
        "fairshare.window.cron: cron windows need the package cronsim; pip install 'slurmfair[cron]'" in told
    )


@pytest.mark.parametrize(
    ("unmatched", "leaves"),
    [("leave", [-1, -1]), ("rest", [1, 1]), ("one.rest", [1, -1]), ("inner", [4, -1]), ("inner.x", [3, -1])],
)
def test_unmatched_names_a_leaf_in_every_pool_or_in_one(unmatched: str, leaves: list[int]) -> None:
    text = (
        f"version: 1\nunmatched: {unmatched}\npools:\n"
        "  one: {partitions: [a], quotas: {q: {match: {accounts: [x]}}, rest: {},"
        " inner: {match: {accounts: [i]}, quotas: {x: {match: {accounts: [y]}}}}}}\n"
        "  two: {partitions: [b], quotas: {q: {match: {accounts: [x]}}, rest: {}}}\n"
    )
    assert [pool.unmatched for pool in parse_policy(text, "p.yaml").pools] == leaves


def test_anchors_and_merges_are_allowed() -> None:
    quotas = quotas_of(
        "a: &team {weight: 3, deserved: 2, match: {accounts: [a]}}\n"
        "b: {<<: *team, weight: 5, match: {accounts: [b]}}\n"
        "c: {<<: [{limit: 9}, *team], match: &m {accounts: [c]}}"
    )
    assert [(q.weight, q.deserved, q.limit) for q in quotas.values()] == [
        (3, (2,), (math.inf,)),
        (5, (2,), (math.inf,)),
        (3, (2,), (9,)),
    ]
    assert quotas["b"].matches[0].accounts == {"b"}


ALL_AT_ONCE = """\
version: 2
cycle: {intervall: 10s, write_budget: yes}
job_priority: {default: 12}
pools:
  h100:
    partitions: [train, train]
    fairshare: {k: yes, half_life: -5m}
    quotas:
      a: {match: {accounts: [a]}, wieght: 3, deserved: 8GPU}
      a: {match: {accounts: [a2]}}
      b: {match: {accounts: [a]}, weight: "3", limit: 1, deserved: 2}
  a100:
    partitions: [train]
    quotas: {c: {match: {accounts: []}, policy: fair}}
unmatched: nobody
"""


def test_all_mistakes_are_told_in_one_run_each_with_file_line_and_key() -> None:
    assert [problem.split("; ")[0] for problem in problems_of(ALL_AT_ONCE)] == [
        "p.yaml:1: version: unknown value '2'",
        "p.yaml:2: cycle.intervall: unknown key",
        "p.yaml:2: cycle.write_budget: yes means true or false in YAML",
        "p.yaml:3: job_priority.default: 12 is above 9",
        "p.yaml:6: pools.h100.partitions[1]: train stands here twice",
        "p.yaml:7: pools.h100.fairshare.k: yes means true or false in YAML",
        "p.yaml:7: pools.h100.fairshare.half_life: a length of time cannot be negative",
        "p.yaml:9: pools.h100.quotas.a.wieght: unknown key",
        "p.yaml:9: pools.h100.quotas.a.deserved: '8GPU' is not a number of gres/gpu",
        "p.yaml:10: pools.h100.quotas.a: given twice, first in line 9",
        "p.yaml:11: pools.h100.quotas.b.weight: '3' in quotes is text",
        "p.yaml:11: pools.h100.quotas.b.match: can never match: rules before it (line 9) take all its jobs",
        "p.yaml:11: pools.h100.quotas.b.limit: limit 1 is below deserved 2 gres/gpu",
        "p.yaml:13: pools.a100.partitions: train belongs to pool h100 too",
        "p.yaml:14: pools.a100.quotas.c.policy: unknown value 'fair'",
        "p.yaml:14: pools.a100.quotas.c.match.accounts: an empty list matches no job",
        "p.yaml:15: unmatched: 'nobody' is no leaf of the quotas",
    ]


def test_misspelt_keys_and_values_get_the_nearest_valid_name() -> None:
    told = "\n".join(problems_of(ALL_AT_ONCE))
    assert "unknown key; did you mean interval?" in told
    assert "unknown key; did you mean weight?" in told
    assert "unknown value 'fair'; use one of: fifo, round_robin, balance, intelligent" in told


QUOTA_MISTAKES = [
    ("weight: .nan", "q.weight: '.nan' is not a number"),
    ("weight: .inf", "q.weight: '.inf' is not a number"),
    ("weight: nan", "q.weight: 'nan' is not a number"),
    ("weight: 1e999", "q.weight: 1e999 is too large"),
    ("weight: -1", "q.weight: -1 is negative"),
    ("weight: 010", "q.weight: '010' is not a number"),
    ("weight: 0x10", "q.weight: '0x10' is not a number"),
    ("weight: [1]", "q.weight: a list where a number"),
    ("weight: {a: 1}", "q.weight: a mapping where a number"),
    ("weight: ", "q.weight: no value"),
    ("weight: true", "q.weight: true means true or false"),
    ("priority: 1.5", "q.priority: 1.5 is not a whole number"),
    ("deserved: -2", "q.deserved: -2 is negative"),
    ("deserved: -1", "q.deserved: -1 is negative"),
    ("deserved: 'x'", "q.deserved: 'x' in quotes is text"),
    ("deserved: 1e300", "q.deserved: 1e+300 is too large"),
    ("limit: -3", "q.limit: -3 is negative"),
    ("limit: {cpu: 3}", "q.limit.cpu: not a resource of this pool"),
    ("limit: {gres/gpu: 8GPU}", "q.limit.gres/gpu: '8GPU' is not a number"),
    ("deserved: 4, limit: 1", "q.limit: limit 1 is below deserved 4"),
    ("deserved: 4, limit: 0", "q.limit: limit 0 is below deserved 4"),
    ("policy: rr", "q.policy: unknown value 'rr'"),
    ("policy: yes", "q.policy: unknown value 'yes'"),
    ("high_blocks_low: 1", "q.high_blocks_low: '1' is neither true nor false"),
    ("high_blocks_low: 'true'", "q.high_blocks_low: 'true' is neither true nor false"),
    ("balance_timeout: UNLIMITED", "q.balance_timeout: UNLIMITED is no length of time"),
    ("balance_timeout: 1 week", "q.balance_timeout: '1 week' is not a length of time"),
    ("balance_timeout: ''", "q.balance_timeout: nothing is no length of time"),
    ("aging_interval: 0", "q.aging_interval: must be above 0"),
    ("fifo_scope: node", "q.fifo_scope: unknown value 'node'"),
    ("quotas: {}", "q.quotas: not a mapping of names to quotas"),
    ("quotas: [a]", "q.quotas: not a mapping of names to quotas"),
    ("quotas: {self: {match: {accounts: [z]}}}", "q.quotas.self: not a usable name"),
    ("quotas: {a.b: {match: {accounts: [z]}}}", "q.quotas.a.b: not a usable name"),
    ("quotas: {z: 3}", "q.quotas.z: not a mapping"),
    ("limit: 4, quotas: {y: {match: {accounts: [y]}, deserved: 3}, z: {match: {accounts: [z]}, deserved: 3}}", "q: its quotas deserve 6 gres/gpu together, above its limit 4"),
    ("fail_opn: true", "q.fail_opn: unknown key; did you mean fail_open?"),
    ("weight: !!int 3", "q.weight: tag tag:yaml.org,2002:int"),
    ("order: [priority]", "q.order: a list where one of priority, submit belongs"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "told"), QUOTA_MISTAKES)
def test_a_wrong_setting_of_a_quota_is_refused(setting: str, told: str) -> None:
    assert f"p.yaml:6: pools.p.quotas.{told}" in mistakes_in(
        f"quotas: {{q: {{match: {{accounts: [x]}}, {setting}}}}}"
    )


POOL_MISTAKES = [
    ("resource: gpu", "resource: unknown value 'gpu'; did you mean gres/gpu?"),
    ("resource: []", "resource: none, or one twice"),
    ("resource: [cpu, cpu]", "resource: none, or one twice"),
    ("place_grace: 0s", "place_grace: must be above 0"),
    ("fairshare: {window: {type: sliding, size: 0}}", "fairshare.window.size: must be above 0"),
    ("fairshare: {window: sliding}", "fairshare.window: not a mapping"),
    ("fairshare: {window: {typ: sliding}}", "fairshare.window.typ: unknown key; did you mean type?"),
    ("fairshare: {window: {type: cron}}", "fairshare.window: type is cron, but there is no cron line"),
    ("fairshare: {window: {cron: '0 0 * * 1'}}", "fairshare.window.cron: has no effect without type: cron"),
    ("fairshare: {window: {type: cron, cron: '0 25 * * 1'}}", "fairshare.window.cron: '0 25 * * 1' is not a cron line"),
    ("fairshare: {window: {type: cron, cron: '0 0 30 2 *'}}", "fairshare.window.cron: '0 0 30 2 *' is not a cron line"),
    ("fairshare: {window: {type: cron, cron: '* * *'}}", "fairshare.window.cron: '* * *' has not five fields"),
    ("fairshare: {window: {timezone: Europe/Berlinn}}", "fairshare.window.timezone: unknown time zone 'Europe/Berlinn'; did you mean Europe/Berlin?"),
    ("fairshare: {window: {anchor: monday}}", "fairshare.window.anchor: 'monday' is not a date or time"),
    ("fairshare: {k: 1, historicalUsageWeight: 2}", "fairshare.historicalUsageWeight: already given in line 6 as k"),
    ("fairshare: {windowType: cron, window: {type: sliding}}", "fairshare.window.type: already given in line 6 as window.type"),
    ("fairshare: {enforce: reclaim}", "fairshare.enforce: unknown value 'reclaim'; use one of: order, holdback"),
    ("fairshare: {k: .inf}", "fairshare.k: '.inf' is not a number"),
    ("fairshare: on", "fairshare: not a mapping"),
    ("fairshare: {}\n    time_based_fairshare: {}", "time_based_fairshare: already given in line 6 as fairshare"),
    ("quota: 3", "quota: unknown key; did you mean quotas?"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "told"), POOL_MISTAKES)
def test_a_wrong_setting_of_a_pool_is_refused(setting: str, told: str) -> None:
    found = mistakes_in(setting.replace("\n    ", "\n") + "\n" + ONE)
    assert f": pools.p.{told}" in found
    assert found.startswith(("p.yaml:6:", "p.yaml:7:"))


RULE_MISTAKES = [
    ("{accounts: []}", "match.accounts: an empty list matches no job"),
    ("[]", "match: an empty list matches no job"),
    ("{accounts: x}", "match.accounts: not a list of names; write [x]"),
    ("{accounts: [x, x]}", "match.accounts[1]: x stands here twice"),
    ("{accounts: [x y]}", "match.accounts[0]: 'x y' is not a name"),
    ("{accounts: ['x,y']}", "match.accounts[0]: 'x,y' is not a name"),
    ("{accounts: [[x]]}", "match.accounts[0]: a list where a name belongs"),
    ("{accounts: [~]}", "match.accounts[0]: no value"),
    ("{account: [x]}", "match.account: unknown key; did you mean accounts?"),
    ("[{accounts: [x]}, vision]", "match[1]: not a mapping"),
    ("{partitions: [c]}", "match.partitions: c is not a partition of this pool; use one of: a, b"),
    ("[{accounts: [x]}, {accounts: [x], qos: [n]}]", "match[1]: can never match: rules before it (line 6)"),
]


@pytest.mark.parametrize(("rule", "told"), RULE_MISTAKES)
def test_a_wrong_rule_is_refused(rule: str, told: str) -> None:
    assert f"p.yaml:6: pools.p.quotas.q.{told}" in mistakes_in(f"quotas: {{q: {{match: {rule}}}}}")


WHOLE_FILE_MISTAKES = [
    ("", "p.yaml:1: the file is empty"),
    ("# nothing\n", "p.yaml:1: the file is empty"),
    ("---\n", "p.yaml:2: not a mapping"),
    ("~", "p.yaml:1: not a mapping"),
    ("just text", "p.yaml:1: not a mapping"),
    ("[1, 2]", "p.yaml:1: not a mapping"),
    ("version: 1", "p.yaml:1: pools is missing"),
    ("pools: {p: {partitions: [a], quotas: {q: {match: {}}}}}", "p.yaml:1: version is missing"),
    ("version: 1\npools:\n", "p.yaml:2: pools: not a mapping of names to pools"),
    ("version: 1\npools: {}", "p.yaml:2: pools: not a mapping of names to pools"),
    ("version: 1\npools: {p: {}}", "p.yaml:2: pools.p: partitions is missing"),
    ("version: 1\npools: {p: {partitions: []}}", "p.yaml:2: pools.p.partitions: an empty list"),
    ("version: 1\npools: {p: {partitions: [a]}}", "p.yaml:2: pools.p: quotas is missing"),
    ("version: 1\npools: {'a b': {partitions: [a]}}", "p.yaml:2: pools.a b: not a usable name"),
    ("version: 1\npools:\n\tp: {}", "p.yaml:3: a tab; indent with spaces"),
    ("version: 1\n  pools: {}", "p.yaml:2: not YAML: mapping values"),
    ("version: 1\nversion: 1\npools: {}", "p.yaml:2: version: given twice, first in line 1"),
    ("a: &a [*a]", "p.yaml:1: a[0]: *a contains itself"),
    ("a: &a {b: *a}", "p.yaml:1: a.b: *a contains itself"),
    ("a: *b", "p.yaml:1: a: *b has no anchor before it"),
    ("? [a]\n: 1", "p.yaml:1: a list or mapping as a key"),
    ("a: &a [x]\n*a : 1", "p.yaml:2: a list or mapping as a key"),
    ("a: {<<: 3}", "p.yaml:1: a.<<: merges something that is not a mapping"),
    ("a: &a {b: 1}\nc: {<<: *a, <<: *a}", "p.yaml:2: c.<<: given twice, first in line 2"),
    ("a: 1\n---\nb: 2", "p.yaml:2: a second document"),
    ("a: \x07", "p.yaml:1: not YAML: control characters"),
    ("ä: 1\nb: \x07", "p.yaml:2: not YAML: control characters"),
    ("a: \ud800", "p.yaml:1: not UTF-8 text"),
    ("[" * 500, "[0][0][0]: nested deeper than 60 levels"),
    ("a: " + "{a: " * 70, "nested deeper than 60 levels"),
    ("x" * 1_000_001, "p.yaml:1: 1,000,001 bytes; a policy file may have 1,000,000"),
    ("version: 1\nfail_open_after: 0\npools: {}", "p.yaml:2: fail_open_after: must be above 0"),
    ("version: 1\nunmatched: {}\npools: {}", "p.yaml:2: unmatched: a mapping where leave"),
    ("version: 1\njob_priority: {comment: {pattern: '('}}\npools: {}", "p.yaml:2: job_priority.comment.pattern: not a regular expression"),
    ("version: 1\njob_priority: {comment: {pattern: 'prio'}}\npools: {}", "p.yaml:2: job_priority.comment.pattern: has 0 groups"),
    ("version: 1\njob_priority: {comment: {max: {qos: {n: 10}}}}\npools: {}", "p.yaml:2: job_priority.comment.max.qos.n: 10 is above 9"),
    ("version: 1\njob_priority: {qos: [a]}\npools: {}", "p.yaml:2: job_priority.qos: not a mapping of names"),
    ("version: 1\njob_priority: {sources: [qos, wckey]}\npools: {}", "p.yaml:2: job_priority.sources: unknown value 'wckey'"),
    ("version: 1\nranks: {high: 4294967295}\npools: {}", "p.yaml:2: ranks.high: 4294967295 is above 2147483645"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WHOLE_FILE_MISTAKES, ids=range(len(WHOLE_FILE_MISTAKES)))
def test_a_wrong_file_is_refused(text: str, told: str) -> None:
    assert told in "\n".join(problems_of(text))


def test_a_partition_of_another_pool_is_named_with_its_pool() -> None:
    text = "version: 1\npools:\n  x: {partitions: [a], quotas: {q: {match: {}}}}\n  y:\n    partitions: [a]\n    quotas: {q: {match: {}}}\n"
    assert problems_of(text) == [
        "p.yaml:5: pools.y.partitions: a belongs to pool x too; a partition has one pool"
    ]


NEVER_MATCHING = [
    ("{accounts: [a]}", "{accounts: [a]}"),
    ("{accounts: [a]}", "{accounts: [a], users: [u]}"),
    ("{accounts: [a, b]}", "{accounts: [b], qos: [q]}"),
    ("[{accounts: [a]}, {accounts: [b]}]", "{accounts: [a, b]}"),
    ("{}", "{users: [u]}"),
    ("{}", "{}"),
    ("{partitions: [a, b]}", "{accounts: [x]}"),
    ("[{accounts: [a], users: [u]}, {accounts: [a], users: [v]}]", "{accounts: [a], users: [u, v]}"),
]
MATCHING = [
    ("{accounts: [a]}", "{accounts: [b]}"),
    ("{accounts: [a], users: [u]}", "{accounts: [a]}"),
    ("{accounts: [a]}", "{users: [u]}"),
    ("{accounts: [a]}", "{}"),
    ("{partitions: [a]}", "{partitions: [a, b]}"),
    ("[{accounts: [a], users: [u]}, {accounts: [b], users: [v]}]", "{accounts: [a, b], users: [u, v]}"),
]


@pytest.mark.parametrize(("first", "second"), NEVER_MATCHING)
def test_a_rule_whose_jobs_are_all_taken_before_is_refused(first: str, second: str) -> None:
    told = mistakes_in(f"quotas:\n  q: {{match: {first}}}\n  r: {{match: {second}}}")
    assert (
        "p.yaml:8: pools.p.quotas.r.match: can never match: rules before it (line 7) take all its jobs"
        in told
    )


@pytest.mark.parametrize(("first", "second"), MATCHING)
def test_a_rule_that_keeps_some_jobs_is_taken(first: str, second: str) -> None:
    assert pool_of(f"quotas:\n  q: {{match: {first}}}\n  r: {{match: {second}}}").quotas[1].matches


def test_long_rules_are_compared_one_by_one() -> None:
    names = ", ".join(f"a{i}" for i in range(200))
    told = mistakes_in(
        f"quotas:\n  q: {{match: {{accounts: [{names}]}}}}\n  r: {{match: {{accounts: [{names}], users: [u]}}}}"
    )
    assert "pools.p.quotas.r.match: can never match" in told
    half = ", ".join(f"a{i}" for i in range(150))
    assert pool_of(
        f"quotas:\n  q: {{match: {{accounts: [{half}]}}}}\n  r: {{match: {{accounts: [{names}]}}}}"
    ).quotas


def test_the_rule_of_an_inner_quota_comes_after_those_of_its_quotas() -> None:
    assert quotas_of("a: {match: {accounts: [x]}, quotas: {b: {match: {accounts: [x], qos: [n]}}}}")
    told = mistakes_in(
        "quotas: {a: {match: {accounts: [x], qos: [n]}, quotas: {b: {match: {accounts: [x]}}}}}"
    )
    assert "pools.p.quotas.a.match: can never match" in told


WARNINGS = [
    ("fairshare: {enabled: true}\n" + ONE, "p.yaml:6: pools.p.fairshare: no half_life: a window without decay"),
    ("fairshare: {half_life: 1s}\n" + ONE, "p.yaml:6: pools.p.fairshare.half_life: 1 s is below the cycle interval of 10 s"),
    ("quotas: {q: {deserved: 1, quotas: {r: {match: {}, deserved: 2}}}}", "p.yaml:6: pools.p.quotas.q: its quotas deserve 2 gres/gpu together, above its own 1"),
    ("quotas: {q: {deserved: 1}}", "p.yaml:6: pools.p.quotas.q: no rule: no job can reach it"),
    ("quotas: {q: {match: {accounts: [Vision]}}}", "p.yaml:6: pools.p.quotas.q.match.accounts: Slurm keeps these names in lower case"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "told"), WARNINGS)
def test_what_is_probably_not_meant_is_a_warning(body: str, told: str) -> None:
    (warning,) = policy_of(body).warnings
    assert warning.startswith(told)


def test_half_life_zero_is_said_and_needs_no_warning() -> None:
    config = policy_of("fairshare: {enabled: true, half_life: 0}\n" + ONE)
    assert (config.warnings, config.pools[0].fairshare.half_life_s) == ((), 0)


def test_a_warning_does_not_hide_mistakes() -> None:
    assert mistakes_in("fairshare: {enabled: true}\nquotas: {q: {wieght: 1}}").count("\n") == 0


def test_an_alias_bomb_is_refused_at_once() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    begun = time.process_time()
    assert "more than 500,000 values once aliases are followed" in problems_of("\n".join(rows))[-1]
    assert time.process_time() - begun < 1


def test_a_bomb_of_merges_is_refused() -> None:
    base = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(2000)) + "}\n"
    text = base + "".join(f"b{i}: {{<<: *a}}\n" for i in range(1000))
    assert "more than 500,000 values" in problems_of(text)[-1]


def test_a_megabyte_of_quotas_is_read_quickly() -> None:
    """1.3 s of CPU where nothing else runs; the bound leaves room for coverage; a quadratic reader takes minutes."""
    row = "      q{0}: {{match: {{accounts: [acc{0}], qos: [n]}}, deserved: 1, limit: 4, weight: 3, policy: balance, balance_timeout: 5m}}\n"
    head = "version: 1\npools:\n  p:\n    partitions: [a]\n    quotas:\n"
    text = head + "".join(row.format(i) for i in range(7900))
    assert 900_000 < len(text) < 1_000_000
    begun = time.process_time()
    assert len(parse_policy(text, "p.yaml").pools[0].quotas) == 7900
    assert time.process_time() - begun < 30


def test_a_megabyte_of_mistakes_ends_early() -> None:
    begun = time.process_time()
    found = problems_of("{" + ", ".join(f"versiom{i}" for i in range(70_000)) + "}")
    assert found[-1] == "p.yaml: stopped after 2,000 mistakes"
    assert time.process_time() - begun < 30


def test_many_rules_that_share_names_are_compared_quickly() -> None:
    rules = "".join(
        f"\n      q{i}: {{match: {{accounts: [a{i % 90}], users: [u{i // 90}]}}}}" for i in range(8000)
    )
    begun = time.process_time()
    assert len(policy_of(f"quotas:{rules}").pools[0].quotas) == 8000
    assert time.process_time() - begun < 30


def test_yaml_without_libyaml_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_libyaml = (parse_policy(DESIGN, "p.yaml"), problems_of(ALL_AT_ONCE))
    monkeypatch.setattr(yaml_lines, "_LOADER", yaml.SafeLoader)
    assert (parse_policy(DESIGN, "p.yaml"), problems_of(ALL_AT_ONCE)) == with_libyaml
    assert problems_of("ä: 1\nb: \x07")[0].startswith("p.yaml:2: not YAML: ")


def test_a_file_is_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + DESIGN.encode())
    assert load_policy(path).source == str(path)


def test_a_file_that_cannot_be_read_is_an_error_of_the_policy(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.yaml", tmp_path):
        with pytest.raises(PolicyError, match="cannot be read"):
            load_policy(path)


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"version: 1\n\xff\xfe: 2\n")
    with pytest.raises(PolicyError, match=r"policy.yaml:2: not UTF-8 text"):
        load_policy(path)


def test_a_file_that_is_too_large_is_not_read_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    with open(path, "wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(PolicyError, match="a policy file may have 1,000,000"):
        load_policy(path)
