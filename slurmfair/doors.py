"""How clients come in: accepted, heard, answered and cut off, the same for the local socket and the network.

Slow, broken and hostile clients are cut off by size, time and number. Answers are sent in small pieces between
which everybody else gets a turn.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from slurmfair.crowd import Crowd, Guest

LONGEST_REQUEST = 64 * 1024  # bytes
REQUEST_TIMEOUT_S = 5.0
STALL_TIMEOUT_S = 20.0  # for a client that does not read
ANSWER_TIMEOUT_S = 120.0
BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Door:
    """A listening socket's ways: who a new client is, the longest line he may send, and what answers it."""

    crowd: Crowd
    uid_of: Callable[[socket.socket], int]
    longest: int  # bytes
    answer: Callable[[bytes, Guest], AsyncIterator[bytes]]

    async def welcome(self, listener: socket.socket) -> None:
        """Let clients in, as many at a time as there is room for."""
        loop = asyncio.get_running_loop()
        while True:
            await self.crowd.room()
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors, or the client is gone already
                await asyncio.sleep(0.05)
                continue
            guest = self.crowd.enter(self.uid_of(sock))
            task = loop.create_task(self._serve(sock, guest))
            # not in the task itself: one that is cancelled before its first step would leave the socket open
            task.add_done_callback(partial(_closed, sock))
            self.crowd.seat(guest, task)

    async def _serve(self, sock: socket.socket, guest: Guest) -> None:
        """Answer one client; whatever it does, nobody else suffers."""
        with suppress(OSError, TimeoutError):
            guest.keeps_us_waiting()
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                line = await self._line(sock)
            if not line:
                return
            guest.waits_for_us()
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                async for piece in self.answer(line, guest):
                    guest.keeps_us_waiting()
                    async with asyncio.timeout(STALL_TIMEOUT_S):
                        await asyncio.get_running_loop().sock_sendall(sock, piece)
                    guest.waits_for_us()

    async def _line(self, sock: socket.socket) -> bytes:
        """Return the request without its end; b"" if the client hung up. One that is too long is cut."""
        loop = asyncio.get_running_loop()
        line = b""
        while len(line) <= self.longest:
            piece = await loop.sock_recv(sock, 16384)
            line += piece
            if not piece or b"\n" in piece:
                break
        return line.partition(b"\n")[0]


def _closed(sock: socket.socket, _: asyncio.Task[None]) -> None:
    """Close the socket of a client that has been served."""
    sock.close()
