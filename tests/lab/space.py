"""The namespaces of a lab: made, entered and ended by the id of their process 1."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import host
from .errors import LabError
from .settings import Settings

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc")
START_TIMEOUT_S = 120.0  # copying the root where overlayfs is missing takes this long
STOP_TIMEOUT_S = 20.0


class Space:
    """Namespaces held by a process `init_pid` (an id on the host) that began at `init_ticks`."""

    def __init__(self, init_pid: int, init_ticks: int, own_network: bool) -> None:
        self.init_pid = init_pid
        self.init_ticks = init_ticks
        self.own_network = own_network
        self.lifeline_fd: int | None = None
        self.door: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        """Whether process 1 is still the one that was started."""
        return start_ticks(self.init_pid) == self.init_ticks

    def path(self, inside: str | Path) -> Path:
        """Return the path on the host of a file inside."""
        return Path(f"/proc/{self.init_pid}/root", *Path(inside).parts[1:])

    def enter(self, argv: Sequence[str], user: str, workdir: str, network: bool) -> list[str]:
        """Return the host's command line for a command inside.

        Without `network` it keeps the host's network (a build that needs the package index).
        """
        spaces = [*NAMESPACES, "--net"] if network and self.own_network else NAMESPACES
        inner = ["env", f"--chdir={workdir}", *argv]
        if user != "root":
            groups = [f"--reuid={user}", f"--regid={user}", "--init-groups"]
            inner = ["setpriv", *groups, *inner]
        return ["nsenter", f"--target={self.init_pid}", *spaces, "--root", "--", *inner]

    def keep(self) -> None:
        """Let the lab outlive this process."""
        if self.lifeline_fd is not None:
            os.write(self.lifeline_fd, b"k")
            self.let_go()

    def let_go(self) -> None:
        """Drop the lifeline: without `keep` before, process 1 ends."""
        if self.lifeline_fd is not None:
            os.close(self.lifeline_fd)
            self.lifeline_fd = None

    def stop(self) -> None:
        """Kill process 1, and with it every process and mount of the lab."""
        self.let_go()
        if self.alive:
            os.kill(self.init_pid, signal.SIGKILL)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while self.alive and time.monotonic() < deadline_s:
            time.sleep(0.02)
        if self.alive:
            raise LabError(f"process {self.init_pid}", "does not die", "look at its state in /proc")
        if self.door is not None:
            self.door.wait(STOP_TIMEOUT_S)


def start(settings: Settings, lower: Path) -> Space:
    """Make the namespaces of a lab and mount its root."""
    lifeline_read, lifeline_write = os.pipe()
    report_read, report_write = os.pipe()
    pid, door = 0, None
    try:
        with held_signals():
            try:
                door = open_door(settings, lower, lifeline_read, report_write)
            finally:  # an end that stays open here would hide the death of process 1
                os.close(lifeline_read)
                os.close(report_write)
        pid = read_report(report_read)
    finally:
        if not pid:
            shut(door, report_read)
            os.close(lifeline_write)
        os.close(report_read)
    if not pid:
        reason = host.last_lines((settings.dir / "init.log").read_text())
        raise LabError("process 1 of the lab", reason, "check that mounts and namespaces work here")
    space = Space(pid, start_ticks(pid) or 0, settings.own_network)
    space.lifeline_fd, space.door = lifeline_write, door
    return space


def shut(door: subprocess.Popen[bytes] | None, report_fd: int) -> None:
    """Kill unshare, process 1 with it, and return when process 1 has closed its end of the report."""
    if door is not None:
        door.kill()
        door.wait(STOP_TIMEOUT_S)
        read_report(report_fd)


@contextmanager
def held_signals() -> Iterator[None]:
    """Let the signals that end a command wait, so that no exception falls between two steps."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def open_door(settings: Settings, lower: Path, lifeline_fd: int, report_fd: int) -> subprocess.Popen[bytes]:
    """Start unshare, which makes the namespaces and waits for process 1."""
    spaces = [*NAMESPACES, "--net"] if settings.own_network else NAMESPACES
    init = [sys.executable, "-I", "-S", str(Path(__file__).with_name("init.py"))]
    argv = ["unshare", *spaces, "--fork", "--kill-child", *init, str(lifeline_fd), str(report_fd)]
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LAB_DIR": str(settings.dir),
        "LAB_LOWER": str(lower),
        "LAB_HOSTNAME": settings.hostname,
        "LAB_OWN_NETWORK": str(settings.own_network),
    }
    with (settings.dir / "init.log").open("w") as log:
        return subprocess.Popen(
            argv,
            env=env,
            cwd="/",
            pass_fds=(lifeline_fd, report_fd),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def read_report(report_fd: int) -> int:
    """Return the id that process 1 reports, 0 if it ended before."""
    ready, _, _ = select.select([report_fd], [], [], START_TIMEOUT_S)
    return int(os.read(report_fd, 32) or 0) if ready else 0


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class LabProcess(subprocess.Popen[str]):
    """A command inside a lab. Signals reach the command itself, not the door it went through."""

    @property
    def host_pid(self) -> int:
        """The id of the command on the host, 0 if it has ended."""
        if not getattr(self, "_host_pid", 0):
            self._host_pid = wait_for_child(self)
        return self._host_pid

    @property
    def lab_pid(self) -> int:
        """The id of the command inside the lab, 0 if it has ended."""
        return inner_pid(self.host_pid)

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command."""
        if self.poll() is None and self.host_pid:
            os.kill(self.host_pid, sig)

    def terminate(self) -> None:
        """Ask the command to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the command."""
        self.send_signal(signal.SIGKILL)


def wait_for_child(door: subprocess.Popen[Any], timeout_s: float = 5.0) -> int:
    """Return the process behind nsenter, 0 if nsenter ended first."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and door.poll() is None:
        if child := child_of(door.pid):
            return child
        time.sleep(0.002)
    return 0


def child_of(parent_pid: int) -> int:
    """Return the first child of a process, 0 if it has none."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == parent_pid:
                return int(entry.name)
    return 0


def inner_pid(host_pid: int) -> int:
    """Return a process's id in its own namespace, 0 if it is gone."""
    try:
        status = Path(f"/proc/{host_pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    rows = dict(line.partition(":")[::2] for line in status.splitlines())
    return int(rows["NSpid"].split()[-1])
