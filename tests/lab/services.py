"""The daemons of a lab: how each is started, when it is ready, how it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from . import conf
from .settings import Settings

MUNGE_SOCKET = "/run/munge/munge.socket.2"
DATABASE_SOCKET = "/run/mysqld/mysqld.sock"
START_TIMEOUT_S = 60.0
POLL_S = 0.05
NODE_SERVICES = tuple(f"slurmd:{node}" for node in conf.NODES)


@dataclass(frozen=True, slots=True)
class Service:
    """One daemon, run in the foreground of its own session.

    It is ready when its socket is there, or its port listens.
    """

    name: str
    argv: tuple[str, ...]
    user: str = "root"
    socket: str | None = None
    port: int | None = None
    log: str = ""
    folders: tuple[tuple[str, str], ...] = ()  # path and owner, made before the start


def services(settings: Settings) -> dict[str, Service]:
    """Return all daemons by name, in the order in which they start."""
    daemons = [munged(), mariadbd(), slurmdbd(settings), slurmctld(settings)]
    daemons += [slurmd(node, settings.base_port + 10 + index) for index, node in enumerate(conf.NODES)]
    return {daemon.name: daemon for daemon in daemons}


def munged() -> Service:
    """Return the daemon that signs Slurm's messages."""
    return Service(
        "munged",
        ("munged", "--foreground", "--force", "--num-threads=4"),
        user="munge",
        socket=MUNGE_SOCKET,
        log="/var/log/munge/munged.out",
        folders=(("/run/munge", "munge"),),
    )


def mariadbd() -> Service:
    """Return the database server."""
    return Service(
        "mariadbd",
        ("mariadbd", "--user=mysql"),
        socket=DATABASE_SOCKET,
        log="/var/log/mysql/mariadbd.out",
        folders=(("/run/mysqld", "mysql"), ("/var/log/mysql", "mysql")),
    )


def slurmdbd(settings: Settings) -> Service:
    """Return Slurm's accounting daemon."""
    return Service(
        "slurmdbd",
        ("slurmdbd", "-D"),
        user="slurm",
        port=conf.dbd_port(settings),
        log=f"{conf.LOGS}/slurmdbd.out",
        folders=((conf.LOGS, "slurm"), (conf.STATE, "slurm"), (conf.RUN, "slurm")),
    )


def slurmctld(settings: Settings) -> Service:
    """Return Slurm's controller."""
    return Service(
        "slurmctld",
        ("slurmctld", "-D", "-i"),  # -i: start also if it was killed before it had saved its state
        user="slurm",
        port=settings.base_port,
        log=f"{conf.LOGS}/slurmctld.out",
        folders=((f"{conf.STATE}/slurmctld", "slurm"), (conf.RUN, "slurm")),
    )


def slurmd(node: str, port: int) -> Service:
    """Return the daemon of one node."""
    return Service(
        f"slurmd:{node}",
        ("slurmd", "-D", "-N", node),
        port=port,
        log=f"{conf.LOGS}/slurmd-{node}.out",
        folders=((f"{conf.STATE}/slurmd-{node}", "root"),),
    )


def wait_until(true: Callable[[], bool], timeout_s: float = START_TIMEOUT_S, poll_s: float = POLL_S) -> bool:
    """Return whether something became true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(poll_s)
    return True


def listens(tcp_table: str, port: int) -> bool:
    """Return whether a table such as /proc/net/tcp has a listener on the port."""
    rows = (row.split() for row in tcp_table.splitlines()[1:])
    return any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows)
