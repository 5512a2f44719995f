"""Serves the published view on a local socket: a process of its own that never speaks to Slurm.

One request a connection: a line of JSON. A `report` is answered by a line of JSON, a `command` (argv of
sfprio and the others) by frames of text: "o 12\\n" and 12 bytes for stdout, "e ..." for stderr, "x 0\\n" for
the exit status. The caller is who the kernel says, or munge where the policy opens a door to the network.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

from slurmfair.crowd import Crowd
from slurmfair.desk import Desk
from slurmfair.doors import BACKLOG, LONGEST_REQUEST, Door
from slurmfair.network import Clerk, keep_open, network_door
from slurmfair.notify import READY, notify, status
from slurmfair.paths import Paths, default_paths

MOST_GUESTS = 1024  # connections at a time and door; further ones wait in the listen queue
MOST_DESCRIPTORS = 16384
SPARE_DESCRIPTORS = 64
PR_SET_PDEATHSIG = 1  # linux/prctl.h
NICENESS = 5  # the cycle comes first


def peer_uid(sock: socket.socket) -> int:
    """Return the user at the other end, as the kernel says."""
    size = 12  # struct ucred: pid, uid, gid
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int.from_bytes(raw[4:8], sys.byteorder)


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[socket.socket]:
    """Give the listening socket; everybody may ask, what each may see is decided by the peer's uid."""
    with suppress(FileNotFoundError):
        path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(BACKLOG)
        yield listener
        with suppress(FileNotFoundError):
            path.unlink()


async def listen(paths: Paths, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    desk, most = Desk(paths), min(MOST_GUESTS, (descriptors() - SPARE_DESCRIPTORS) // 2)
    local = Door(Crowd(most), peer_uid, LONGEST_REQUEST, lambda line, guest: desk.answer(line, guest.uid))
    remote = network_door(desk, Clerk(), most)
    async with listening(paths.socket) as listener:
        open_doors = [
            asyncio.create_task(local.welcome(listener)),
            asyncio.create_task(keep_open(remote, paths.listen, desk.say_network)),
        ]
        ready()
        await stop.wait()
        for task in open_doors:
            task.cancel()
        await asyncio.gather(*open_doors, return_exceptions=True)
        for door in (local, remote):
            await door.crowd.send_home()


def descriptors() -> int:
    """Raise the limit of open files as far as we may; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, MOST_DESCRIPTORS) if hard != resource.RLIM_INFINITY else MOST_DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def take_turn(path: Path) -> IO[bytes]:
    """Wait until no other reporter serves this folder; the turn ends when the returned file is closed.

    So slurmfaird may always start a reporter: beside slurmfair-report.service it stands by, and each
    takes over when the other ends.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        notify(READY, status("standing by: another reporter serves"))
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def end_with(pid: int) -> None:
    """Have the kernel end this process when its parent ends; end now if the parent is gone already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != pid:
        sys.exit(0)


def parser() -> argparse.ArgumentParser:
    defaults = default_paths()
    out = argparse.ArgumentParser(
        prog="slurmfair serve",
        description="Answer sfprio, sfshare and slurmfair from the last decision that slurmfaird published.",
    )
    help_text = "end with this process, which must be the parent"
    out.add_argument("--with", dest="parent", type=int, metavar="PID", help=help_text)
    out.add_argument(
        "state_dir", type=Path, nargs="?", default=defaults.state_dir, help="default: %(default)s"
    )
    out.add_argument("run_dir", type=Path, nargs="?", default=defaults.run_dir, help="default: %(default)s")
    return out


def main(argv: list[str] | None = None) -> int:
    """Entry of the reporter process."""
    given = parser().parse_args(argv)
    paths = Paths(given.state_dir, given.run_dir)
    if given.parent is not None:
        end_with(given.parent)
    os.nice(NICENESS)
    try:
        paths.run_dir.mkdir(parents=True, exist_ok=True)
        with take_turn(paths.run_dir / "report.lock"):
            asyncio.run(listen(paths, lambda: notify(READY, status("serving"))))
    except KeyboardInterrupt:
        return 0
    except OSError as err:
        print(f"slurmfair serve: {err}; the reporter runs as the daemon's account", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
