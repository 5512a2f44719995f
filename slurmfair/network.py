"""The reporter's door to the network: the same answers as on the local socket, in munge credentials (decision 0015).

munge says who asks. It answers within a millisecond, but it may hang, so it is asked in threads that nobody waits
for longer than MUNGE_TIMEOUT_S. Clients from the network have a crowd of their own and take no room from local ones.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from slurmfair.address import host_and_port, told
from slurmfair.crowd import Crowd, Guest
from slurmfair.desk import Desk
from slurmfair.doors import BACKLOG, LONGEST_REQUEST, Door
from slurmfair.errors import MungeUnavailable, NotAuthentic
from slurmfair.munge import Munge as RealMunge
from slurmfair.sealed import BEGIN, PART, REFUSED, opened_request, sealed_part

if TYPE_CHECKING:
    from slurmfair.sealed import Munge

STRANGER = -1  # uid of a client whose credential was not opened yet
MUNGE_TIMEOUT_S = 5.0
MOST_THREADS = 8
LOOK_S = 1.0  # how often the daemon's word about where to listen is looked at
NO_CREDENTIAL = "not a munge credential; ask with sfprio, sfshare or slurmfair of this release"
CANNOT = "cannot listen on"
T = TypeVar("T")


@dataclass(slots=True)
class Clerk:
    """Asks munge in threads, MOST_THREADS at a time. One that hangs keeps its thread, and not the process's end."""

    connect: Callable[[], Munge] = RealMunge
    munge: Munge | None = None
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_THREADS))

    async def have(self, work: Callable[[Munge], T]) -> T:
        """Return what comes of work with munge.

        Raises:
            MungeUnavailable: it is not here, or takes too long.
            NotAuthentic: a credential proves nothing.
        """
        try:
            async with asyncio.timeout(MUNGE_TIMEOUT_S):
                await self.free.acquire()
                return await self._in_thread(work)
        except TimeoutError as err:
            raise MungeUnavailable(
                f"munge on the host of slurmfaird does not answer within {MUNGE_TIMEOUT_S:g} s; "
                "see why: systemctl status munge"
            ) from err

    async def _in_thread(self, work: Callable[[Munge], T]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = work(self._munge())
            except (MungeUnavailable, NotAuthentic) as err:
                over(done.set_exception, err)
            else:
                over(done.set_result, result)

        def over(settle: Callable[..., None], value: object) -> None:
            def finish() -> None:
                self.free.release()
                if not done.done():
                    settle(value)

            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish)

        Thread(target=run, daemon=True).start()
        return await done

    def _munge(self) -> Munge:
        if self.munge is None:
            self.munge = self.connect()
        return self.munge


async def answer(desk: Desk, clerk: Clerk, line: bytes, guest: Guest) -> AsyncIterator[bytes]:
    """Yield the lines of an answer: credentials for the asking user alone, or why there is none, in clear."""
    try:
        if not line.startswith(BEGIN):  # not worth munge's time
            raise NotAuthentic(NO_CREDENTIAL)
        request, uid, mark = await clerk.have(lambda munge: opened_request(munge, line))
        guest.uid = uid
        number = 0
        async for body, last in _parts(desk.answer(request.partition(b"\n")[0], uid)):
            seal = _sealer(body, uid, mark, number, last)
            yield await clerk.have(seal)
            number += 1
    except (MungeUnavailable, NotAuthentic) as err:
        yield REFUSED + str(err).encode() + b"\n"


def _sealer(body: bytes, uid: int, mark: str, number: int, last: bool) -> Callable[[Munge], bytes]:
    return lambda munge: sealed_part(munge, body, uid, mark, number, last)


async def _parts(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield an answer in parts that munge can carry, each with whether it is the last."""
    part = bytearray()
    async for piece in pieces:
        part += piece
        while len(part) > PART:
            yield bytes(part[:PART]), False
            del part[:PART]
    yield bytes(part), True


def network_door(desk: Desk, clerk: Clerk, most: int) -> Door:
    """Return the door for clients from the network; all strangers together count as one user."""
    longest = 2 * LONGEST_REQUEST  # a credential is a third longer than what it carries
    return Door(
        Crowd(most), lambda sock: STRANGER, longest, lambda line, guest: answer(desk, clerk, line, guest)
    )


async def keep_open(door: Door, path: Path, say: Callable[[str], None]) -> None:
    """Listen where the daemon says in a file, for as long as it says so; `say` hears how that goes."""
    said = ""

    def news(text: str) -> None:
        nonlocal said
        if text != said and text.startswith(CANNOT):
            print(f"slurmfair serve: {text}", file=sys.stderr, flush=True)
        said = text
        say(text)

    while True:
        address = told(path)
        if not address:
            news("")
            await asyncio.sleep(LOOK_S)
            continue
        try:
            listener = await asyncio.to_thread(bound, address)
        except (OSError, ValueError) as err:
            news(f"{CANNOT} {address} ({err}); mend reports.listen in the policy file")
            await asyncio.sleep(LOOK_S)
            continue
        news(f"listens on {address}")
        with listener:
            await _while_told(door, listener, path, address)


async def _while_told(door: Door, listener: socket.socket, path: Path, address: str) -> None:
    welcome = asyncio.create_task(door.welcome(listener))
    try:
        while told(path) == address:
            await asyncio.sleep(LOOK_S)
    finally:
        welcome.cancel()
        await asyncio.gather(welcome, return_exceptions=True)


def bound(address: str) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        ValueError: it is no address.
        OSError: the host has no such address, or somebody else listens there.
    """
    host, port = host_and_port(address)
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
