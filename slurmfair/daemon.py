"""slurmfaird: the loop around the cycle, its signals, and what it tells systemd, the gate and the guard."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from slurmfair import __version__, notify
from slurmfair.address import tell
from slurmfair.apply import Applied, Refusals, apply_changes
from slurmfair.config import Config
from slurmfair.config_cluster import wishes_of
from slurmfair.config_file import load_policy
from slurmfair.cycle import Channel, Cycle, look_at, run_cycle
from slurmfair.errors import PolicyError, SlurmfairError, SlurmRefused, SlurmUnavailable, StateError
from slurmfair.history import Past
from slurmfair.in_force import InForce
from slurmfair.memory import Memory, load_memory, save_memory
from slurmfair.model import Change
from slurmfair.paths import DEFAULT_CONFIG, Paths, default_paths
from slurmfair.publish import make_view
from slurmfair.record import Record
from slurmfair.slurm.cluster import Cluster
from slurmfair.slurm.settings import Settings, findings
from slurmfair.state import State, lock
from slurmfair.view import save as save_view

log = logging.getLogger("slurmfaird")

SETTINGS_EVERY_S = 60.0
LONGEST_BACKOFF_S = 15.0  # the gate holds new jobs meanwhile, so be back soon after Slurm is
WRITING_SHARE = 0.5  # of the interval; what is left over is decided anew
EXIT_FAILED, EXIT_REFUSED = 1, 2


@dataclass(frozen=True, slots=True)
class Options:
    config: Path
    paths: Paths
    once: bool = False
    shadow: bool = False


@dataclass(slots=True)
class Signals:
    """Signals as flags, and a pipe that wakes the loop."""

    stop: bool = False
    reload: bool = False
    pipe: tuple[int, int] = field(default_factory=lambda: os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))

    def install(self) -> None:
        signal.set_wakeup_fd(self.pipe[1], warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
        else:
            self.stop = True

    def wait(self, timeout_s: float) -> None:
        """Sleep until a signal comes or the time is up."""
        if not self.stop and not self.reload and timeout_s > 0:
            select.select([self.pipe[0]], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            os.read(self.pipe[0], 4096)


class Daemon:
    """One daemon on one cluster; `step` is one turn of its loop."""

    def __init__(self, options: Options, config: Config, cluster: Cluster, state: State) -> None:
        self.options = options
        self.policy = InForce(options.config, config, config)
        self.cluster = cluster
        self.state = state
        self.memory: Memory = load_memory(state)
        self.past = Past(state)
        self.record = Record(options.paths.record)
        self.settings: Settings | None = None
        self.settings_read_s = float("-inf")
        self.cluster_warnings: list[str] = []
        self.warned: tuple[str, ...] = ()
        self.refusals = Refusals()
        self.signals = Signals()
        self.failures = 0
        self.ready = False
        self.listen: str | None = None  # what the reporter was told

    def step(self) -> Cycle:
        """Read, decide, write, remember, publish.

        Raises:
            SlurmUnavailable: Slurm is away; nothing was written after that moment.
            SlurmRefused: rights or a setting are missing.
            PolicyError: the cluster does not agree with the first policy.
        """
        began_s = time.monotonic()
        settings = self._look_at_settings()
        reading = self.cluster.read()
        self.policy.settle(reading, settings, self.state.overrides())
        channel = Channel(settings.weight_sum, self.config.ranks.channel == "site_factor")
        self.past.catch_up(self.cluster, self.config, reading.now_s)
        look = look_at(reading, self.config, self.memory)
        usage = self.past.look(look.snapshot)
        cycle = run_cycle(look, self.config, channel, self.memory, usage, self.past.requeued)
        applied = self._write(cycle)
        self.memory = cycle.memory_after(applied.done if applied else ())
        save_memory(self.state, self.memory)
        self._log_decisions(reading.now_s, applied)
        view = make_view(cycle, applied, self._about(began_s))
        save_view(view, self.options.paths.view)
        self._tell_reporter()
        self.record.note(view)
        self._beat(reading.now_s)
        self._log(cycle, applied, time.monotonic() - began_s)
        return cycle

    def _write(self, cycle: Cycle) -> Applied | None:
        if self.options.shadow:
            return None
        limit_s = max(1.0, WRITING_SHARE * self.config.cycle.interval_s)
        return apply_changes(cycle.changes, self.cluster, self.refusals, limit_s)

    @property
    def config(self) -> Config:
        return self.policy.config

    def _look_at_settings(self) -> Settings:
        """Return the cluster's settings, read now and then; the first ones, and rights at any time, must be right."""
        if self.settings is not None and time.monotonic() - self.settings_read_s < SETTINGS_EVERY_S:
            return self.settings
        settings = self.cluster.settings()
        found = findings(settings, wishes_of(self.config))
        fatal = [
            str(one) for one in found if one.severity == "error" and (self.settings is None or one.rights)
        ]
        if fatal and not self.options.shadow:
            raise SlurmRefused("\n".join(fatal))
        news = [str(one) for one in found if str(one) not in self.cluster_warnings]
        for text in news:
            log.warning("cluster: %s", text)
        self.cluster_warnings = [str(one) for one in found]
        self.settings, self.settings_read_s = settings, time.monotonic()
        return settings

    def _log_decisions(self, now_s: int, applied: Applied | None) -> None:
        done = applied.done if applied else ()
        self.state.log_decisions(now_s, [(c.job_id, what_of(c), c.why) for c in done])

    def _about(self, began_s: float) -> dict[str, object]:
        return {
            "version": __version__,
            "policy_file": str(self.options.config),
            "refused_policy": self.policy.refused,
            "refused_overrides": list(self.policy.refused_overrides),
            "policy_warnings": list(self.policy.warnings),
            "cluster_warnings": self.cluster_warnings,
            "shadow": self.options.shadow,
            "overrides": [[o.pool, o.key, o.value, o.who, o.at_s] for o in self.policy.overrides],
            "pid": os.getpid(),
            "cycle_s": time.monotonic() - began_s,
            "interval_s": self.config.cycle.interval_s,
            "private_jobs": "jobs" in (self.settings.private_data if self.settings else ()),
            "operators": sorted(self.settings.rights.levels if self.settings else ()),
            "coordinated": dict(self.settings.rights.coordinated) if self.settings else {},
        }

    def _tell_reporter(self) -> None:
        """Tell it where to listen besides its socket; it outlives us, and looks by itself."""
        if self.listen != self.config.reports.listen:
            tell(self.options.paths.listen, self.config.reports.listen)
            self.listen = self.config.reports.listen

    def _beat(self, now_s: int) -> None:
        """Tell gate and guard that a cycle was healthy; a shadow has written nothing, so it must not keep them quiet."""
        if self.options.shadow:
            return
        self.state.set_meta(last_cycle_s=str(now_s))
        partitions = " ".join(name for pool in self.config.pools for name in pool.partitions)
        fresh = self.options.paths.heartbeat.with_suffix(".new")
        fresh.write_text(f"{int(time.time())}\n{partitions}\n")
        fresh.chmod(0o644)
        fresh.replace(self.options.paths.heartbeat)

    def _log(self, cycle: Cycle, applied: Applied | None, took_s: float) -> None:
        for text in cycle.warnings:
            if text not in self.warned:
                log.warning("%s", text)
        self.warned = cycle.warnings
        log.info(
            "cycle done jobs=%d waiting=%d changes=%d written=%d put_off=%d took_ms=%.1f",
            len(cycle.snapshot.reading.jobs),
            cycle.n_waiting,
            len(cycle.changes),
            applied.sent if applied else 0,
            cycle.left_over + (applied.put_off if applied else 0),
            took_s * 1000,
        )

    def reload(self) -> None:
        """Read the policy file again, and tell systemd when it began and ended."""
        notify.notify(*notify.reloading())
        self.policy.read_again()
        self.settings_read_s = float("-inf")
        notify.notify(notify.READY)

    def run(self) -> int:
        """Turn the loop until a signal stops it; return the exit status."""
        self.signals.install()
        reporter = Reporter(self.options.paths)
        try:
            while not self.signals.stop:
                if self.signals.reload:
                    self.signals.reload = False
                    self.reload()
                reporter.keep_alive()
                delay_s = self._turn()
                if self.options.once:
                    return EXIT_FAILED if self.failures else 0
                self.signals.wait(delay_s)
        finally:
            notify.notify(notify.STOPPING)
            if not self.options.shadow:
                self.options.paths.heartbeat.unlink(missing_ok=True)
            reporter.stop()
        log.info(
            "stopped; own holds stay until slurmfaird or slurmfair-guard returns, or `slurmfair release-all`"
        )
        return 0

    def _turn(self) -> float:
        """One step, whatever happens; return how long to sleep in seconds."""
        began_s = time.monotonic()
        try:
            cycle = self.step()
        except (SlurmRefused, PolicyError):
            raise
        except SlurmUnavailable as err:
            self._failed(f"Slurm does not answer: {err}")
            return min(LONGEST_BACKOFF_S, self.config.cycle.interval_s * 2 ** min(self.failures - 1, 6))
        except Exception as err:  # a fault of ours must not stop the next cycle
            log.exception("cycle failed")
            self._failed(f"cycle failed: {err!r}")
            return self.config.cycle.interval_s
        self.failures = 0
        lines = [notify.WATCHDOG, notify.status(f"{cycle.n_waiting} jobs wait, {len(cycle.changes)} changes")]
        if not self.ready:
            lines.insert(0, notify.READY)
            self.ready = True
        notify.notify(*lines)
        return self.config.cycle.interval_s - (time.monotonic() - began_s)

    def _failed(self, text: str) -> None:
        self.failures += 1
        if self.failures == 1:
            log.error("%s; nothing is written until it is back", text)
        notify.notify(notify.WATCHDOG, notify.status(text))


class Reporter:
    """The process that answers sfprio and the others; started anew when it dies."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.process: subprocess.Popen[bytes] | None = None

    def keep_alive(self) -> None:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "slurmfair.reporter", "--with", str(os.getpid())]
            folders = [str(self.paths.state_dir), str(self.paths.run_dir)]
            # What systemd hears of us is ours to say: a reporter that serves does not make the daemon ready.
            env = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
            self.process = subprocess.Popen(command + folders, stdin=subprocess.DEVNULL, env=env)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)


@contextlib.contextmanager
def opened(options: Options, connect: Callable[[Config], Cluster]) -> Iterator[Daemon]:
    """Give a daemon that holds the lock of its state folder, and let go of everything at the end."""
    config = load_policy(options.config)
    options.paths.run_dir.mkdir(parents=True, exist_ok=True)
    with lock(options.paths.lock):
        state = State(options.paths.database)
        cluster = connect(config)
        try:
            yield Daemon(options, config, cluster, state)
        finally:
            cluster.close()
            state.close()


def what_of(change: Change) -> str:
    """Return a change in a few words, such as "release + rank 5000"."""
    flags = (("cancel", change.cancel), ("hold", change.hold), ("release", change.release))
    words = [word for word, asked in flags if asked]
    if change.rank is not None:
        words.append(f"rank {change.rank}")
    return " + ".join(words) or "retag"


def parser() -> argparse.ArgumentParser:
    defaults = default_paths()
    out = argparse.ArgumentParser(
        prog="slurmfaird",
        description="Order a Slurm queue by quotas, time-based fair share and queue policies.",
    )
    out.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="policy file (default: %(default)s)")
    out.add_argument("--once", action="store_true", help="one cycle, then end")
    out.add_argument("--shadow", action="store_true", help="decide and publish, never write to Slurm")
    out.add_argument("--state-dir", type=Path, default=defaults.state_dir, help="default: %(default)s")
    out.add_argument("--run-dir", type=Path, default=defaults.run_dir, help="default: %(default)s")
    out.add_argument("--verbose", action="store_true", help="log every decision")
    out.add_argument("--version", action="version", version=f"slurmfair {__version__}")
    return out


def connect_to_slurm(config: Config) -> Cluster:
    from slurmfair.slurm.live import LiveCluster  # pyslurm is an extra, imported only where a cluster is

    return LiveCluster(config.ranks.channel)


def main(argv: list[str] | None = None) -> int:
    """Entry of slurmfaird. Exit 2: rights, a setting or the policy must be mended by somebody first."""
    given = parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if given.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    options = Options(given.config, Paths(given.state_dir, given.run_dir), given.once, given.shadow)
    try:
        with opened(options, connect_to_slurm) as daemon:
            return daemon.run()
    except (PolicyError, SlurmRefused, StateError) as err:
        print(f"slurmfaird: {err}", file=sys.stderr)
        return EXIT_REFUSED
    except SlurmfairError as err:
        print(f"slurmfaird: {err}", file=sys.stderr)
        return EXIT_FAILED
