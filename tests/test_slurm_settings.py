"""Tests of slurmfair.slurm.settings: each setting that harms is found, with the line that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmfair.slurm.settings import PartitionSettings, Settings, Wishes, findings

GOOD = Settings(
    cluster="c",
    version="25.11.2",
    pyslurm="25.11.2",
    own_edge=True,
    account="fair",
    is_slurm_user=False,
    admin_level="Administrator",
    priority_type="priority/multifactor",
    priority_flags=frozenset(),
    site_factor_plugin="",
    weights={"Age": 0, "QOS": 0},
    calc_period_s=60,
    scheduler_type="sched/backfill",
    scheduler={"defer": "", "bf_interval": "20", "bf_window": "3000", "requeue_delay": "5"},
    select_type="select/cons_tres",
    submit_plugins=("lua",),
    slurmctld={},
    accounting_type="accounting_storage/slurmdbd",
    tracked=frozenset({"cpu", "gres/gpu", "gres/gpu:h100"}),
    gpu_types=frozenset({"h100"}),
    private_data=frozenset(),
    min_job_age_s=300,
    partitions=(PartitionSettings("a", 1, 60, 1440), PartitionSettings("b", 1, 60, 1440)),
)
WISHES = Wishes(frozenset({"a", "b"}), gate=True, unheld_jobs=100)


def test_the_recommended_settings_have_nothing_to_mend() -> None:
    assert findings(GOOD, WISHES) == ()


def other_tier(tier: int) -> tuple[PartitionSettings, ...]:
    return (GOOD.partitions[0], replace(GOOD.partitions[1], tier=tier))


@pytest.mark.parametrize(
    ("changed", "severity", "setting", "mend"),
    [
        ({"admin_level": "Operator"}, "error", "AdminLevel of fair", "sacctmgr -i add user fair"),
        ({"admin_level": ""}, "warning", "AdminLevel of fair", "sacctmgr show user fair"),
        ({"pyslurm": "24.11.0"}, "error", "pyslurm", "pip install 'pyslurm==25.11.*'"),
        ({"version": "26.05.5"}, "note", "pyslurm", ""),
        ({"version": "25.05.1", "pyslurm": "25.11.2"}, "error", "pyslurm", "pyslurm==25.5.*"),
        ({"own_edge": False}, "warning", "slurmfair's own edge", "SLURM_LIB_DIR="),
        ({"priority_type": "priority/basic"}, "error", "PriorityType", "PriorityType=priority/multifactor"),
        ({"site_factor_plugin": "x"}, "error", "PrioritySiteFactorPlugin", "remove the line"),
        ({"weights": {"Age": 1000}}, "note", "PriorityWeight*", ""),
        ({"weights": {"Age": 10_000_000}}, "error", "PriorityWeight*", "lower the weights"),
        ({"calc_period_s": 300}, "warning", "PriorityCalcPeriod", "PriorityCalcPeriod=1"),
        ({"partitions": other_tier(2)}, "warning", "PriorityTier", "PriorityTier=1"),
        ({"partitions": GOOD.partitions[:1]}, "error", "partition b", "policy file"),
        ({"scheduler_type": "sched/builtin"}, "error", "SchedulerType", "sched/backfill"),
        ({"select_type": "select/linear"}, "error", "SelectType", "select/cons_tres"),
        ({"slurmctld": {"rl_enable": ""}}, "warning", "SlurmctldParameters", "rl_refill_rate"),
        ({"min_job_age_s": 10}, "warning", "MinJobAge", "MinJobAge=300"),
        ({"submit_plugins": ()}, "error", "JobSubmitPlugins", "JobSubmitPlugins=lua"),
        ({"tracked": frozenset({"cpu"})}, "error", "AccountingStorageTRES", "gres/gpu,gres/gpu:h100"),
        ({"tracked": frozenset({"gres/gpu"})}, "note", "AccountingStorageTRES", "gres/gpu:h100"),
        ({"shards": True}, "warning", "AccountingStorageTRES", "gres/shard"),
        ({"accounting_type": ""}, "warning", "AccountingStorageType", "slurmdbd"),
    ],
)
def test_each_harmful_setting_is_found(
    changed: dict[str, Any], severity: str, setting: str, mend: str
) -> None:
    (found,) = findings(replace(GOOD, **changed), WISHES)
    assert (found.severity, found.setting) == (severity, setting)
    assert mend in found.mend
    assert found.why in str(found)


@pytest.mark.parametrize(
    ("scheduler", "setting"),
    [
        ({"defer": None}, "SchedulerParameters"),
        ({"bf_interval": "60"}, "bf_interval"),
        ({"requeue_delay": None}, "requeue_delay"),
        ({"bf_max_job_test": "100"}, "bf_max_job_test"),
        ({"bf_window": None, "bf_max_job_test": "101"}, ""),
        ({"bf_window": "1000"}, "bf_window"),
        ({"enable_user_top": ""}, "SchedulerParameters"),
        ({"bf_continue": ""}, "SchedulerParameters"),
    ],
)
def test_scheduler_parameters_are_judged_with_slurms_defaults(
    scheduler: dict[str, Any], setting: str
) -> None:
    merged = {name: value for name, value in {**GOOD.scheduler, **scheduler}.items() if value is not None}
    found = findings(replace(GOOD, scheduler=merged), WISHES)
    assert [(one.severity, one.setting) for one in found] == ([("warning", setting)] if setting else [])


def test_bf_continue_is_fine_since_slurm_was_mended() -> None:
    mended = replace(
        GOOD, version="26.05.3", pyslurm="26.5.0", scheduler={**GOOD.scheduler, "bf_continue": ""}
    )
    assert findings(mended, WISHES) == ()


def test_slurmuser_needs_no_admin_level_and_no_rate_limit() -> None:
    assert (
        findings(replace(GOOD, is_slurm_user=True, admin_level="None", slurmctld={"rl_enable": ""}), WISHES)
        == ()
    )


def test_weights_without_a_bound_are_an_error() -> None:
    wild = replace(GOOD, weights={"QOS": 10}, priority_flags=frozenset({"NO_NORMAL_QOS", "MAX_TRES"}))
    assert [(one.severity, one.setting) for one in findings(wild, WISHES)] == [
        ("error", "PriorityFlags"),
        ("note", "PriorityWeight*"),
    ]


def test_the_priority_channel_needs_no_multifactor_but_is_noted() -> None:
    basic = replace(GOOD, priority_type="priority/basic", weights={"Age": 10_000_000}, site_factor_plugin="x")
    (found,) = findings(basic, replace(WISHES, channel="priority"))
    assert (found.severity, found.setting) == ("note", "ranks.channel")
