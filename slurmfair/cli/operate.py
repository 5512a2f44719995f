"""What an administrator does beside the running daemon: plan, release-all, guard."""

from __future__ import annotations

import argparse
import logging
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from slurmfair.apply import Refusals, apply_changes
from slurmfair.config_file import load_policy
from slurmfair.daemon import Options, connect_to_slurm, opened, what_of
from slurmfair.errors import SlurmfairError, StateError
from slurmfair.model import Change
from slurmfair.paths import DEFAULT_CONFIG, Paths, default_paths
from slurmfair.release import releases, silent_for_s, stays_closed
from slurmfair.slurm.cluster import Cluster, Result
from slurmfair.state import last_cycle_s, lock

NO_TIME_LIMIT_S = 3600.0


def _parser(name: str, text: str) -> argparse.ArgumentParser:
    defaults = default_paths()
    out = argparse.ArgumentParser(prog=f"slurmfair {name}", description=text)
    out.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="policy file (default: %(default)s)")
    out.add_argument("--state-dir", type=Path, default=defaults.state_dir, help="default: %(default)s")
    out.add_argument("--run-dir", type=Path, default=defaults.run_dir, help="default: %(default)s")
    return out


def _as_sentence(change: Change) -> str:
    return f"{change.job_id:>10}  {what_of(change):<28} {change.why}"


def plan_main(argv: list[str]) -> int:
    """Show what the daemon would write now, and why; nothing is written, to Slurm or to disk."""
    given = _parser("plan", "Show what would be written to Slurm now, and why. Writes nothing.").parse_args(
        argv
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Paths(Path(folder) / "state", Path(folder) / "run")
        _copy_state(Paths(given.state_dir, given.run_dir), scratch)
        options = Options(given.config, scratch, once=True, shadow=True)
        with opened(options, connect_to_slurm) as daemon:
            cycle = daemon.step()
    for change in cycle.changes:
        print(_as_sentence(change))
    print(f"{len(cycle.changes)} changes, {cycle.n_waiting} jobs wait; nothing was written")
    return 0


def _copy_state(theirs: Paths, scratch: Paths) -> None:
    """Copy the daemon's state, if there is one that we may read, so that timers and ages count."""
    scratch.state_dir.mkdir(parents=True)
    if not theirs.database.exists():
        return
    try:
        with (
            closing(sqlite3.connect(f"file:{theirs.database}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(scratch.database)) as target,
        ):
            source.backup(target)
    except sqlite3.Error as err:
        raise StateError(
            f"{theirs.database}: cannot be read ({err}); run this as root or as slurmfair"
        ) from err


def release_all_main(argv: list[str]) -> int:
    """Release every hold of ours."""
    parser = _parser("release-all", "Release every job that slurmfair or its gate holds, and no other.")
    parser.add_argument("--dry-run", action="store_true", help="only show them")
    given = parser.parse_args(argv)
    if not given.dry_run:
        _daemon_must_rest(Paths(given.state_dir, given.run_dir))
    with closing(connect_to_slurm(load_policy(given.config))) as cluster:
        changes = releases(cluster.read().jobs)
        if given.dry_run:
            print("\n".join(map(_as_sentence, changes)))
            return 0
        return _release(cluster, changes)


def _daemon_must_rest(paths: Paths) -> None:
    """A running daemon would hold the jobs again."""
    if not paths.lock.exists():
        return
    try:
        lock(paths.lock).close()
    except StateError as err:
        raise StateError(
            "slurmfaird is running and would hold the jobs again in its next cycle; "
            "stop it first: systemctl stop slurmfaird"
        ) from err


def _release(cluster: Cluster, changes: tuple[Change, ...]) -> int:
    left = changes
    released = 0
    while left:  # apply_changes stops early where Slurm is slow; here everything must go out
        applied = apply_changes(left, cluster, Refusals(), NO_TIME_LIMIT_S)
        released += applied.results[Result.OK]
        left = left[applied.sent :]
    moved_on = len(changes) - released
    print(f"slurmfair: {released} holds released" + (f", {moved_on} jobs had moved on" if moved_on else ""))
    return 0


def guard_main(argv: list[str]) -> int:
    """Release our holds if the daemon has had no healthy cycle for `fail_open_after`; else do nothing."""
    given = _parser(
        "guard", "Release slurmfair's own holds when the daemon has had no healthy cycle for fail_open_after."
    ).parse_args(argv)
    config = load_policy(given.config)
    paths = Paths(given.state_dir, given.run_dir)
    silent_s = silent_for_s(int(time.time()), last_cycle_s(paths.database), _first_asked_s(paths))
    if silent_s < config.fail_open_after_s:
        print(f"slurmfair guard: last healthy cycle {silent_s} s ago, nothing to do")
        return 0
    with closing(connect_to_slurm(config)) as cluster:
        jobs = cluster.read().jobs
        changes = releases(jobs, stays_closed(config, jobs))
        print(f"slurmfair guard: no healthy cycle for {silent_s} s, releasing {len(changes)} holds of ours")
        return _release(cluster, changes)


def _first_asked_s(paths: Paths) -> int:
    """Return when a guard first found no record of any cycle."""
    note = paths.state_dir / "guard-first-asked"
    if last_cycle_s(paths.database) is not None:
        note.unlink(missing_ok=True)
        return 0
    try:
        if not note.exists():
            note.write_text(str(int(time.time())))
        return int(note.read_text())
    except (OSError, ValueError) as err:
        raise SlurmfairError(
            f"{note}: cannot be used ({err}); the guard must run as the daemon's account"
        ) from err
