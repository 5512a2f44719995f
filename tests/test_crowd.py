"""Who is let in, who has to leave, and that nothing of him stays."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from slurmfair.crowd import PATIENCE_S, PATIENCE_WITH_MANY_S, Crowd, Guest
from slurmfair.doors import Door


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_who_has_most_of_the_room_loses_patience_first() -> None:
    clock = Clock()
    crowd = Crowd(10, clock)
    greedy = [crowd.enter(1000) for _ in range(9)]
    modest = crowd.enter(2000)
    for guest in (*greedy, modest):
        guest.keeps_us_waiting()
    clock.now_s = PATIENCE_WITH_MANY_S + 0.01
    assert set(crowd.idlers()) == set(greedy)
    clock.now_s = PATIENCE_S + 0.01
    assert set(crowd.idlers()) == {*greedy, modest}


def test_who_waits_for_us_never_has_to_leave() -> None:
    clock = Clock()
    crowd = Crowd(2, clock)
    new, asking, idle = (crowd.enter(1000) for _ in range(3))
    for guest in (asking, idle):
        guest.keeps_us_waiting()
    asking.waits_for_us()
    clock.now_s = 100.0
    assert crowd.idlers() == [idle]
    new.keeps_us_waiting()
    assert crowd.idlers() == [idle]


@dataclass(slots=True)
class Unkind(Crowd):
    """Everybody has to leave before he has said a word."""

    def seat(self, guest: Guest, task: asyncio.Task[None]) -> None:
        Crowd.seat(self, guest, task)
        task.cancel()


async def nothing(_: bytes, __: Guest) -> AsyncIterator[bytes]:
    yield b""


def test_who_is_sent_away_before_he_was_served_is_hung_up_on_at_once(tmp_path: Path) -> None:
    async def visit() -> bytes:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            for sock in (listener, client):
                sock.setblocking(False)
            listener.bind(str(tmp_path / "socket"))
            listener.listen()
            door = asyncio.create_task(Door(Unkind(9), lambda _: 1000, 100, nothing).welcome(listener))
            await loop.sock_connect(client, str(tmp_path / "socket"))
            said = await asyncio.wait_for(loop.sock_recv(client, 1), 10)
            door.cancel()
            return said

    gc.disable()  # which would close the socket in the end
    try:
        assert asyncio.run(visit()) == b""
    finally:
        gc.enable()
