"""Serves the published view on a local socket: a process of its own that never speaks to Slurm.

One request a connection: a line of JSON, answered by a line of JSON. The caller is known by the peer
credentials of the socket. Slow, broken and hostile clients are cut off by size, time and number.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurmfair import view as views
from slurmfair.errors import SlurmfairError
from slurmfair.paths import Paths
from slurmfair.reports import REPORTS, Caller

LONGEST_REQUEST = 64 * 1024  # bytes
REQUEST_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
MOST_CLIENTS = 256  # answered at a time; further ones wait in the listen queue
BACKLOG = 4096


@dataclass(slots=True)
class Server:
    paths: Paths
    view: views.View | None = None
    read_from: tuple[int, int] = (0, 0)  # inode and mtime of the file the view came from
    clients: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_CLIENTS))

    def current_view(self) -> views.View:
        """Return the newest published view; the file is read again only when it was replaced."""
        try:
            found = os.stat(self.paths.view)
            mark = (found.st_ino, found.st_mtime_ns)
        except OSError:
            mark = (0, 0)
        if self.view is None or (mark != self.read_from and mark != (0, 0)):
            self.view, self.read_from = views.load(self.paths.view), mark
        return self.view

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client; whatever it does, nobody else suffers."""
        try:
            async with self.clients:
                await self._answer(reader, writer)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            pass  # gone, too slow, or too large: there is nobody to tell
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            line = await reader.readline()
        if not line:
            return
        answer = self.respond(line, caller_of(writer))
        writer.write(answer + b"\n")
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await writer.drain()

    def respond(self, line: bytes, caller: Caller) -> bytes:
        """Return the answer to a request, as JSON; a request that cannot be served gets an `error`."""
        try:
            request = json.loads(line)
            report = REPORTS[request["report"]]
            current = self.current_view()
            body = report(current, caller, request, self.paths)
            age_s = max(0.0, time.time() - float(current.about["now_s"]))
            answer: dict[str, Any] = {"age_s": age_s, "about": current.about, "body": body}
        except SlurmfairError as err:
            answer = {"error": str(err)}
        except (ValueError, KeyError, TypeError, RecursionError):
            answer = {
                "error": "request not understood; ask with sfprio, sfshare or slurmfair of this release"
            }
        return json.dumps(answer, separators=(",", ":")).encode()


def caller_of(writer: asyncio.StreamWriter) -> Caller:
    """Return who is at the other end, as the kernel says."""
    sock: socket.socket = writer.get_extra_info("socket")
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", raw)[1]
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return Caller(uid, name)


async def listen(paths: Paths, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    server = Server(paths)
    paths.run_dir.mkdir(parents=True, exist_ok=True)
    paths.socket.unlink(missing_ok=True)
    listener = await asyncio.start_unix_server(
        server.serve, path=paths.socket, limit=LONGEST_REQUEST, backlog=BACKLOG
    )
    paths.socket.chmod(0o666)  # everybody may ask; what each may see is decided by the peer's uid
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    ready()
    async with listener:
        await stop.wait()
    paths.socket.unlink(missing_ok=True)


def main() -> int:
    """Entry of the reporter process: state folder and run-time folder are its arguments."""
    paths = Paths(Path(sys.argv[1]), Path(sys.argv[2]))
    asyncio.run(listen(paths, lambda: None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
