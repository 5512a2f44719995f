"""`make run`: slurmfair at work on a real Slurm, in about two minutes.

Needs root, Debian and a package mirror; elsewhere the same story runs on the simulated cluster.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from . import host
from .daemons import REPO
from .errors import LabError
from .lab import Lab

SHOW_EVERY_S = 15
RUN_S = 110
POLICY = """\
version: 1
cycle: {interval: 2s}
job_priority: {qos: {urgent: 9, normal: 5, scavenger: 1}}
pools:
  gpu:
    partitions: [train, interactive]
    resource: gres/gpu
    quotas:
      vision: {match: {accounts: [vision]}, deserved: 16, policy: fifo}
      llm:
        deserved: 8
        policy: round_robin
        quotas:
          pretrain: {match: {accounts: [llm-pretrain]}, deserved: 8, weight: 2}
          eval: {match: {accounts: [llm-eval]}, weight: 1}
      speech: {match: {accounts: [speech]}, deserved: 8, policy: round_robin, limit: 20}
"""
DECISIONS = """
import json, sqlite3
db = sqlite3.connect("/var/lib/slurmfair/state.db")
print(json.dumps(db.execute("SELECT job_id, what FROM decisions ORDER BY rowid").fetchall()))
"""
STORY = """
Three teams share 32 GPUs (gpu01-03: 8 h100 each, gpu04: 4 h100 and 4 a100).
  speech  deserves 8, at most 20: thirty 1-GPU jobs, the first to arrive, so it takes what is idle
  vision  deserves 16, FIFO: one job of 16 GPUs on 2 nodes, then four small ones that must not pass it
  llm     deserves 8, Round Robin: 4-GPU and 2-GPU jobs; those that do not fit are skipped
Watch: nobody of vision passes its 16-GPU job; room is kept for it, so speech and llm do not refill.
"""


def main() -> int:
    """Run the demonstration; 0 when it ran, also when it had to explain why not."""
    if theirs := reachable_slurmctld():
        print(theirs)
        return 0
    if reason := host.unfit():
        return simulated(reason)
    signal.signal(signal.SIGTERM, _stop)
    folder = Path(tempfile.mkdtemp(prefix="slurmfair-run-"))
    try:
        return on_real_slurm(folder / "lab")
    except LabError as err:
        print(f"run: no real Slurm here: {err}")
        return simulated(str(err))
    except KeyboardInterrupt:
        print("\nrun: stopped; nothing is left behind")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def reachable_slurmctld() -> str:
    """Return what to say when this machine belongs to a Slurm cluster already, else ""."""
    if not shutil.which("scontrol"):
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=20)
        if " is UP" in done.stdout:
            return (
                f"run: a Slurm cluster is here already ({done.stdout.strip().splitlines()[0]}).\n"
                "Nothing was touched. To see what slurmfair would do on it, without any write:\n"
                "    pip install '.[slurm]'\n"
                "    slurmfair check --slurm conf/policy.yaml\n"
                "    slurmfair plan --config conf/policy.yaml"
            )
    return ""


def simulated(reason: str) -> int:
    """Tell the story on the cluster in memory, and say so."""
    print(
        f"run: {reason}\nrun: going on with the simulated cluster: Slurm's rules in memory, no real Slurm",
        flush=True,
    )
    venv = REPO / ".venv"
    subprocess.run(["bash", str(REPO / "tests/venv.sh"), sys.executable, str(venv)], check=True)
    return subprocess.run([str(venv / "bin/python"), "-m", "slurmfair.sim.demo"]).returncode


def on_real_slurm(folder: Path) -> int:
    print("run: bringing up a real Slurm (the first time this takes a few minutes)", flush=True)
    with Lab(dir=folder, name="demo") as lab:
        lab.install_project()
        lab.path("/etc/slurmfair").mkdir(parents=True)
        lab.path("/etc/slurmfair/policy.yaml").write_text(POLICY)
        for place in ("/var/lib/slurmfair", "/run/slurmfair"):
            lab.run(["install", "-d", "-o", "slurmfair", "-g", "slurmfair", place])
        print(STORY, flush=True)
        with daemon(lab) as log:
            submit_workload(lab)
            wait_for_decision(lab)
            began_s = time.monotonic()
            shown = 0
            while (gone_s := time.monotonic() - began_s) < RUN_S:
                shown = show(lab, log, shown, int(gone_s))
                time.sleep(SHOW_EVERY_S)
            show(lab, log, shown, RUN_S)
        summary(lab)
    return 0


@contextlib.contextmanager
def daemon(lab: Lab) -> Iterator[Path]:
    """Run slurmfaird as its own unprivileged account; give the file it logs to."""
    log = lab.path("/var/log/slurmfaird.log")
    with log.open("w") as out:
        process = lab.popen(["slurmfaird"], user="slurmfair", stdout=out, stderr=out)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(timeout=30)


def submit_workload(lab: Lab) -> None:
    def job(name: str, seconds: int, *args: str) -> list[str]:
        return [f"--job-name={name}", *args, f"--wrap=exec sleep {seconds}", "--time=5"]

    lab.submit_many([job(f"speech{i:02}", 20 + i, "--gpus=1") for i in range(30)], user="eve")
    lab.submit_many([job("gang16", 30, "-N2", "--gres=gpu:h100:8")], user="ann")
    lab.submit_many([job(f"vision{i}", 15, "--gpus=1") for i in range(1, 5)], user="bob")
    lab.submit_many(
        [job(f"pre{i}", 40, "-N1", "--gpus=4", "--account=llm-pretrain") for i in range(3)], user="cid"
    )
    lab.submit_many([job(f"eval{i}", 20, "--gpus=2", "--account=llm-eval") for i in range(4)], user="dora")


def wait_for_decision(lab: Lab) -> None:
    """Wait until the daemon has published its first decision."""
    until_s = time.monotonic() + 30
    while lab.run(["sfprio", "-h"], check=False).returncode and time.monotonic() < until_s:
        time.sleep(0.2)


def show(lab: Lab, log: Path, shown: int, at_s: int) -> int:
    """Print the daemon's new log lines, its view and Slurm's own; return how many log lines have been shown."""
    lines = log.read_text().splitlines()
    print(f"\n=== {at_s} s " + "=" * 60)
    print("\n".join(lines[shown:][-4:]))
    for title, argv in (
        ("sfprio -l", ["sfprio", "-l"]),
        ("Slurm's squeue, running", ["squeue", "-t", "R", "-h", "-o", "%a", "--noheader"]),
        ("Slurm's sprio", ["sprio", "-o", "%.8i %.9Y %.12S %N"]),
    ):
        done = lab.run(argv, check=False)
        text = done.stdout if done.returncode == 0 else done.stderr
        if argv[0] == "squeue":
            text = (
                ", ".join(f"{n} of {account}" for account, n in sorted(Counter(text.split()).items()))
                or "none"
            )
        print(f"--- {title}\n" + "\n".join(text.rstrip().splitlines()[:18]))
    sys.stdout.flush()
    return len(lines)


def summary(lab: Lab) -> None:
    """Say what was held, in which order jobs started, and what was written."""
    decisions = json.loads(lab.run(["python3", "-c", DECISIONS]).stdout)
    held = list(dict.fromkeys(job for job, what in decisions if "hold" in what))
    rows = {int(row["JobIDRaw"]): row for row in lab.sacct("--format=JobIDRaw,JobName,Account,Start")}
    begun = sorted((row["Start"], number) for number, row in rows.items() if row["Start"][:1].isdigit())
    names = {number: row["JobName"] for number, row in rows.items()}
    print("\n=== summary " + "=" * 60)
    print(f"held at some time: {', '.join(names.get(job, str(job)) for job in held) or 'nobody'}")
    print(f"started, in order: {', '.join(names[number] for _, number in begun)}")
    print(f"writes to Slurm:   {len(decisions)} ({sum('hold' in what for _, what in decisions)} holds)")
    print("run: done; the lab is taken down, nothing is left behind", flush=True)


if __name__ == "__main__":
    sys.exit(main())
