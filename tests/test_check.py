"""`slurmfair check`: exit status and what is printed where."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfair.cli.check import check, main
from slurmfair.config_file import parse_policy
from slurmfair.model import Reading
from slurmfair.overrides import Told
from slurmfair.slurm.settings import PartitionSettings, Settings
from slurmfair.state import Override, State
from tests.tables import jobs_of, nodes_of, reading_of
from tests.test_config_file import ALL_AT_ONCE, DESIGN


def write(folder: Path, text: str) -> str:
    """Return the name of a policy file with this text."""
    path = folder / "policy.yaml"
    path.write_text(text)
    return str(path)


def test_a_good_policy_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DESIGN)
    assert check(path) == 0
    assert capsys.readouterr() == (
        f"{path}: good, no warnings\n  pool h100: 2 partitions, 3 leaf quotas, time-based fair share on\n",
        "",
    )


def test_all_mistakes_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, ALL_AT_ONCE)
    assert check(path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}:1: version: unknown value '2'")
    assert err.endswith(f"{path}: 17 mistakes\n")


def test_warnings_are_told_and_do_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(write(tmp_path, DESIGN.replace("half_life: 0, ", ""))) == 0
    out, err = capsys.readouterr()
    assert "good, 1 warning\n" in out
    assert err.startswith("warning: ")
    assert "a window without decay" in err


def test_the_effective_policy_shows_overrides_and_can_be_used_as_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(write(tmp_path, DESIGN), effective=True, overrides=[Told("h100", "k", "2")]) == 0
    out, _ = capsys.readouterr()
    assert "# set h100 k=2\n" in out
    assert parse_policy(out, "again.yaml").pools[0].fairshare.k == 2


def test_a_wrong_override_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(write(tmp_path, DESIGN), overrides=[Told("h100", "k", "x")]) == 1
    assert capsys.readouterr().err.startswith("set h100 k=x: pools.h100.fairshare.k: 'x' is not a number")


class StandIn:
    """A cluster of one node with settings that please us, but for those given."""

    def __init__(self, **changed: object) -> None:
        plain: dict[str, object] = {
            "cluster": "lab", "version": "26.05.5", "pyslurm": "26.05.0", "own_edge": True, "account": "slurmfair",
            "is_slurm_user": False, "admin_level": "Administrator", "priority_type": "priority/multifactor",
            "priority_flags": frozenset(), "site_factor_plugin": "", "weights": {}, "calc_period_s": 60,
            "scheduler_type": "sched/backfill", "scheduler": {}, "select_type": "select/cons_tres",
            "submit_plugins": (), "slurmctld": {}, "accounting_type": "accounting_storage/slurmdbd",
            "tracked": frozenset({"gres/gpu"}), "gpu_types": frozenset(), "private_data": frozenset(),
            "min_job_age_s": 300,
            "partitions": tuple(PartitionSettings(name, 1, 60.0, 600.0) for name in ("train", "interactive")),
        }  # fmt: skip
        self._settings = Settings(**(plain | changed))  # type: ignore[arg-type]

    def settings(self) -> Settings:
        """Return the settings."""
        return self._settings

    def read(self) -> Reading:
        """Return three nodes without jobs."""
        node = {"partitions": ["train", "interactive"]}
        return reading_of(jobs_of(), nodes_of(*({"name": f"gpu{i}", **node} for i in range(3))))

    def close(self) -> None:
        """There is nothing to close."""


def test_the_cluster_is_judged_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(write(tmp_path, DESIGN), connect=lambda config: StandIn()) == 0  # type: ignore[arg-type, return-value]
    assert "cluster lab: no errors" in capsys.readouterr().out


def test_a_setting_that_forbids_the_daemon_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = StandIn(admin_level="Operator")
    assert check(write(tmp_path, DESIGN), connect=lambda config: cluster) == 1  # type: ignore[arg-type, return-value]
    out, err = capsys.readouterr()
    assert "error: AdminLevel of slurmfair is Operator" in err
    assert "cluster lab: 1 error" in out


def test_a_partition_that_the_cluster_does_not_have_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, DESIGN.replace("[train, interactive]", "[train, interactiv]"))
    assert check(path, connect=lambda config: StandIn()) == 1  # type: ignore[arg-type, return-value]
    assert (
        "error: pools.h100.partitions: Slurm has no partition interactiv; did you mean interactive?"
        in capsys.readouterr().err
    )


def test_deserved_above_capacity_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DESIGN.replace("deserved: 16, limit: 24", "deserved: 17"))
    assert check(path, connect=lambda config: StandIn()) == 0  # type: ignore[arg-type, return-value]
    assert "warning: pools.h100.quotas: deserved 25 > capacity 24 gres/gpu" in capsys.readouterr().err


def test_the_command_shows_the_overrides_of_the_state_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = State(tmp_path / "state" / "state.db")
    state.set_override(Override("h100", "k", "3", "root", 1))
    state.close()
    path = write(tmp_path, DESIGN)
    assert main([path, "--effective", "--state-dir", str(tmp_path / "state")]) == 0
    assert "# set h100 k=3\n" in capsys.readouterr().out
    assert main([path, "--effective", "--state-dir", str(tmp_path / "nowhere")]) == 0
    assert "k: 1\n" in capsys.readouterr().out


def test_the_command_without_options_only_reads_the_file(tmp_path: Path) -> None:
    assert main([write(tmp_path, DESIGN), "--state-dir", str(tmp_path / "nowhere")]) == 0
    assert not (tmp_path / "nowhere").exists()
