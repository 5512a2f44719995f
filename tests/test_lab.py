"""The lab itself: a job runs in it, and nothing remains of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.lab import Lab, LabError, Settings, built, conf, host, root, space
from tests.lab.jobs import parse_record
from tests.lab.project import copy_changed
from tests.lab.services import wait_until
from tests.lab.settings import from_environment, from_json

REPO = Path(__file__).resolve().parents[1]


def why_no_lab() -> str | None:
    """Return why this machine cannot hold a lab, if so."""
    if reason := host.unfit():
        return reason
    if (from_environment().cache / root.key()).is_dir():
        return None
    try:
        site = urlsplit(host.mirror())
        socket.create_connection((site.hostname or "", site.port or 80), timeout=3).close()
    except (OSError, LabError) as err:
        return f"no cached root, and Debian's mirror cannot be reached: {err}"
    return None


NO_LAB = why_no_lab()
live = [pytest.mark.slurm, pytest.mark.skipif(NO_LAB is not None, reason=str(NO_LAB))]


def on_slurm(test):  # type: ignore[no-untyped-def]
    """Mark a test that needs a lab."""
    for mark in live:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(dir=tmp_path_factory.mktemp("one"), name="one") as one:
        yield one


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(dir=tmp_path / "lab", cache=from_environment().cache)


def command(*words: str, **options) -> subprocess.CompletedProcess[str]:  # type: ignore[no-untyped-def]
    """Run `python3 -m tests.lab`."""
    argv = [sys.executable, "-m", "tests.lab", *words]
    return subprocess.run(argv, cwd=REPO, text=True, capture_output=True, timeout=120, check=False, **options)


def processes_of(folder: Path) -> list[str]:
    """Return the processes that belong to the lab of a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            for name in ("mountinfo", "environ", "cmdline"):
                try:
                    if str(folder) in (entry / name).read_text(errors="replace"):
                        found.append(f"{entry.name}:{name}")
                except OSError:
                    pass
    return found


def assert_nothing_remains(folder: Path) -> None:
    assert wait_until(lambda: not processes_of(folder), 5), processes_of(folder)
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()


def started_up(folder: Path, until: str) -> subprocess.Popen[str]:
    """Start `up` and return when a stage line with the given words has come."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lab", "up", "--dir", str(folder)],
        cwd=REPO,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if until in line:
            return process
    raise AssertionError(process.communicate())


# Without Slurm


def test_a_line_given_replaces_the_labs_own_whatever_its_case(tmp_path: Path) -> None:
    given = {
        "schedulerparameters": "defer",
        "MaxJobCount": None,
        "PartitionName=new": "Nodes=cpu01",
    }
    text = conf.slurm_conf(Settings(dir=tmp_path, cache=tmp_path, conf=given))
    assert "SchedulerParameters=defer\n" in text
    assert "MaxJobCount" not in text
    assert "PartitionName=new Nodes=cpu01\n" in text


def test_settings_survive_their_file(settings: Settings) -> None:
    assert from_json(json.loads(json.dumps(settings.as_json()))) == settings


def test_free_text_keeps_spaces_and_equals_signs() -> None:
    record = "JobId=7 JobName=a b=c\n   Priority=0 Nice=3\n   SubmitLine=sbatch A=1 x\n   Power=\n"
    assert parse_record(record) == {
        "JobId": "7",
        "JobName": "a b=c",
        "Priority": "0",
        "Nice": "3",
        "SubmitLine": "sbatch A=1 x",
        "Power": "",
    }


def test_a_folder_with_something_else_is_never_removed(settings: Settings) -> None:
    settings.dir.mkdir()
    (settings.dir / "thesis.tex").write_text("precious")
    with pytest.raises(LabError, match="something else"):
        Lab(settings).down()
    with pytest.raises(LabError, match="something else"):
        Lab(settings).clear_folder()
    assert (settings.dir / "thesis.tex").read_text() == "precious"


def test_down_on_nothing_is_fine(settings: Settings) -> None:
    Lab(settings).down()


def test_status_of_nothing_says_so(settings: Settings) -> None:
    done = command("status", "--json", "--dir", str(settings.dir))
    assert (done.returncode, json.loads(done.stdout)) == (3, {"running": False})


def test_only_compiled_parts_pass_from_one_lab_to_the_next(tmp_path: Path) -> None:
    files = {"_core/usage.pyx": b"loop", "slurmfair/cycle.py": b"one"}
    kept = built.folder(tmp_path / "cache", files)
    first, second = tmp_path / "first", tmp_path / "second"
    for name, content in {**files, "_core/usage.c": b"c", "build/lib/cycle.py": b"stale"}.items():
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_bytes(content)
    built.save(kept, files, first)
    copy_changed(files, second)
    built.restore(kept, files, second)
    assert (second / "_core/usage.c").read_bytes() == b"c"
    assert not (second / "build").exists()
    assert (second / "_core/usage.pyx").stat().st_mtime < (second / "_core/usage.c").stat().st_mtime
    assert built.folder(tmp_path / "cache", {**files, "_core/usage.pyx": b"other"}) != kept


# With Slurm


@on_slurm
def test_a_gpu_job_runs_as_its_user(lab: Lab) -> None:
    argv = ["srun", "--gpus=a100:2", "sh", "-c", "id -un; echo $SLURM_JOB_NODELIST"]
    done = lab.run(argv, user="dora")
    assert done.stdout.split() == ["dora", "gpu04"]


@on_slurm
def test_users_have_accounts_and_homes(lab: Lab) -> None:
    for user in lab.settings.unix_users:
        assert lab.run(["sh", "-c", "id -un; pwd"], user=user).stdout.split() == [
            user,
            f"/home/{user}",
        ]
    rows = lab.run(["sacctmgr", "-nP", "list", "assoc", "format=account,user"]).stdout.split()
    for account, users in lab.settings.accounts.items():
        assert {f"{account}|{user}" for user in users} <= set(rows)


@on_slurm
def test_pyslurm_reads_and_writes_as_the_administrator(lab: Lab) -> None:
    job = lab.sbatch("--begin=now+1hour", user="eve")
    lines = "job.modify(pyslurm.JobSubmitDescription(site_factor=77)); print(job.user_name)"
    code = f"import pyslurm; job = pyslurm.Job.load({job}); {lines}"
    done = lab.run(["python3", "-c", code], user=lab.settings.administrator)
    assert done.stdout.strip() == "eve"
    assert lab.show_job(job)["Priority"] == "77"


@on_slurm
def test_cancel_all_leaves_an_empty_queue(lab: Lab) -> None:
    lab.submit_many([["--gpus=8"], ["--array=0-9"], ["--begin=now+1hour", "--gpus=1"]], user="bob")
    lab.cancel_all()
    assert lab.job_ids() == []
    assert set(lab.node_states().values()) == {"idle"}


@on_slurm
def test_exec_passes_input_output_and_status(lab: Lab) -> None:
    words = ["exec", "--dir", str(lab.settings.dir), "--user", "ann", "--"]
    done = command(*words, "sh", "-c", "cat; id -un; exit 7", input="hello\n")
    assert (done.returncode, done.stdout) == (7, "hello\nann\n")
    assert command(*words, "sh", "-c", "kill -9 $$").returncode == 137


@on_slurm
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_signals_reach_the_command(lab: Lab, sig: signal.Signals) -> None:
    process = lab.popen(["sleep", "100"], user=lab.settings.administrator)
    assert lab.lives(process.lab_pid)
    process.send_signal(sig)
    assert process.wait(5) == -sig


@on_slurm
def test_a_killed_daemon_starts_again(lab: Lab) -> None:
    for name in ("munged", "slurmctld", "slurmd:gpu02"):
        before = lab.service_pid(name)
        lab.restart_service(name, signal.SIGKILL)
        assert lab.service_pid(name) not in (None, before)
        lab.wait_nodes()


@on_slurm
def test_configuration_changes_while_the_lab_runs(lab: Lab) -> None:
    lab.set_conf({"PriorityWeightQOS": "1234"})
    assert "PriorityWeightQOS       = 1234" in lab.run(["scontrol", "show", "config"]).stdout
    lab.set_conf({"PriorityWeightQOS": "0"}, restart=True)
    assert "PriorityWeightQOS       = 0" in lab.run(["scontrol", "show", "config"]).stdout


@on_slurm
def test_calls_are_counted_by_user(lab: Lab) -> None:
    before = lab.sdiag()["by_user"].get("finn", 0)
    lab.run(["squeue"], user="finn")
    assert lab.sdiag()["by_user"]["finn"] > before


@on_slurm
def test_a_working_tree_is_installed_once(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "tiny"\nversion = "1"\ndependencies = ["numpy"]\n'
        '[project.scripts]\ntiny = "tiny:main"\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    (tmp_path / "tiny.py").write_text("def main():\n    print('first')\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=30)
    assert lab.install_project(tmp_path)
    assert not lab.install_project(tmp_path)
    (tmp_path / "tiny.py").write_text("def main():\n    print('second')\n")
    assert lab.install_project(tmp_path)
    assert lab.run(["tiny"], user=lab.settings.administrator).stdout == "second\n"


@on_slurm
def test_two_labs_live_side_by_side(lab: Lab, settings: Settings) -> None:
    with Lab(settings) as other:
        ours, theirs = lab.sbatch("--begin=now+1hour"), other.sbatch("--begin=now+1hour")
        assert str(ours) in lab.job_ids() and str(theirs) in other.job_ids()
        assert "ClusterName=one\n" in lab.path("/etc/slurm/slurm.conf").read_text()
        assert "ClusterName=lab\n" in other.path("/etc/slurm/slurm.conf").read_text()
        lab.cancel_all()
        assert other.job_ids() == [str(theirs)]
    assert lab.running and not other.running


@on_slurm
def test_down_leaves_nothing(settings: Settings) -> None:
    folder = settings.dir
    done = command("up", "--dir", str(folder), "--cache", str(settings.cache))
    assert done.returncode == 0, done.stderr
    status = json.loads(command("status", "--json", "--dir", str(folder)).stdout)
    assert status["running"] and all(status["services"].values())
    assert set(status["nodes"].values()) == {"idle"}
    lab = Lab.attach(folder)
    lab.sbatch("--gpus=1")
    process = lab.popen(["sleep", "100"])
    assert processes_of(folder)
    assert command("down", "--dir", str(folder)).returncode == 0
    assert process.wait(5) != 0
    assert_nothing_remains(folder)


@on_slurm
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stage", ["root forky", "namespaces", "slurmctld ready"])
def test_an_interrupted_up_leaves_nothing(settings: Settings, stage: str, sig: signal.Signals) -> None:
    process = started_up(settings.dir, stage)
    process.send_signal(sig)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "lab: interrupted\n")
    assert_nothing_remains(settings.dir)


@on_slurm
def test_an_interrupt_while_process_1_starts_leaves_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = space.open_door

    def interrupted(*args):  # type: ignore[no-untyped-def]
        door = opened(*args)
        os.kill(os.getpid(), signal.SIGINT)  # held back until the door is known
        return door

    monkeypatch.setattr(space, "open_door", interrupted)
    start_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Lab(settings).up()
    assert time.monotonic() - start_s < 10
    assert_nothing_remains(settings.dir)


@on_slurm
def test_a_killed_up_takes_its_daemons_along(settings: Settings) -> None:
    process = started_up(settings.dir, "slurmdbd ready")
    process.kill()
    process.communicate(timeout=60)
    assert wait_until(lambda: not processes_of(settings.dir), 5), processes_of(settings.dir)
    assert command("down", "--dir", str(settings.dir)).returncode == 0
    assert_nothing_remains(settings.dir)


@on_slurm
def test_a_failed_up_leaves_nothing_and_says_why(settings: Settings) -> None:
    done = command("up", "--dir", str(settings.dir), "--conf", "SelectType=select/nonsense")
    assert done.returncode == 1
    assert done.stderr.startswith("lab: slurmctld: ") and "Traceback" not in done.stderr
    assert_nothing_remains(settings.dir)


@on_slurm
def test_a_lab_ends_with_the_process_that_made_it(settings: Settings) -> None:
    code = "import sys, signal; from tests.lab import Lab; Lab(dir=sys.argv[1]).up(); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code, str(settings.dir)], cwd=REPO)
    assert wait_until(lambda: Path(settings.dir, "slurmd:cpu01.pid").exists(), 60)
    process.kill()
    process.wait(10)
    assert wait_until(lambda: not processes_of(settings.dir), 5)
    shutil.rmtree(settings.dir)
