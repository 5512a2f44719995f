"""What systemd hears from the daemon, on a real notify socket."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from tests.live.policies import gpu_pool, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=16),
)
SOCKET = "/run/notify"  # inside the lab


class Listener:
    """systemd's end of a notify socket."""

    def __init__(self, heard: socket.socket) -> None:
        self._socket = heard
        self.messages: list[list[str]] = []

    def listen(self) -> list[list[str]]:
        """Return all messages so far, each a list of its lines."""
        while True:
            try:
                self.messages.append(self._socket.recv(4096).decode().splitlines())
            except BlockingIOError:
                return self.messages

    def count(self, line: str) -> int:
        return sum(line in message for message in self.listen())


@pytest.fixture
def systemd(site: Site) -> Iterator[Listener]:
    path = site.lab.path(SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        path.chmod(0o777)
        listening.setblocking(False)
        yield Listener(listening)
    path.unlink()


def test_ready_watchdog_reloading_and_stopping_are_heard_in_time(site: Site, systemd: Listener) -> None:
    site.write_policy(POLICY)
    site.start(env={"NOTIFY_SOCKET": SOCKET})
    site.wait(lambda: systemd.count("READY=1") == 1, "ready after the first healthy cycle")
    assert "WATCHDOG=1" in systemd.messages[0] and "READY=1" in systemd.messages[0]
    fed = systemd.count("WATCHDOG=1")
    site.wait_cycles(3)
    site.wait(lambda: systemd.count("WATCHDOG=1") >= fed + 3, "each cycle feeds the watchdog")
    site.daemon.send_signal(signal.SIGHUP)
    site.wait(lambda: systemd.count("READY=1") == 2, "ready again after a reload")
    lines = [line for message in systemd.messages for line in message]
    begun = lines.index("RELOADING=1")
    assert int(lines[begun + 1].removeprefix("MONOTONIC_USEC=")) > 0
    assert begun < len(lines) - 1 - lines[::-1].index("READY=1")
    assert site.stop() == 0
    assert systemd.listen()[-1] == ["STOPPING=1"]


def test_the_watchdog_is_fed_while_slurm_is_away_so_that_systemd_does_not_kill_the_daemon(
    site: Site, systemd: Listener
) -> None:
    site.write_policy(POLICY)
    site.start(env={"NOTIFY_SOCKET": SOCKET})
    site.lab.stop_service("munged")
    try:
        site.wait(lambda: "Slurm does not answer" in site.daemon_log(), "it says so")
        fed = systemd.count("WATCHDOG=1")
        site.wait(lambda: systemd.count("WATCHDOG=1") > fed, "fed all the same")
        assert any("STATUS=Slurm does not answer" in line for line in systemd.messages[-1])
    finally:
        site.lab.start_service("munged")
    site.wait_cycles(1)
