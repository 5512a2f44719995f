"""The clients that are being answered: how many, of whom, and who has to leave when there is no room."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

PATIENCE_S = 2.0  # with a client that neither asks nor reads, once there is no room
PATIENCE_WITH_MANY_S = 0.25  # if its user has taken most of the room
LOOK_AGAIN_S = 0.02


@dataclass(slots=True, eq=False)
class Guest:
    """One connection. `idle_since_s` is since when we wait for it, None while it waits for us, as at first."""

    uid: int
    clock: Callable[[], float]
    idle_since_s: float | None = None
    task: asyncio.Task[None] | None = None

    def waits_for_us(self) -> None:
        self.idle_since_s = None

    def keeps_us_waiting(self) -> None:
        self.idle_since_s = self.clock()


@dataclass(slots=True)
class Crowd:
    """At most `most` guests. One user who takes all the room loses it to others, slowest connection first."""

    most: int
    clock: Callable[[], float] = monotonic
    guests: set[Guest] = field(default_factory=set)

    def enter(self, uid: int) -> Guest:
        guest = Guest(uid, self.clock)
        self.guests.add(guest)
        return guest

    def seat(self, guest: Guest, task: asyncio.Task[None]) -> None:
        guest.task = task
        task.add_done_callback(lambda _: self.guests.discard(guest))

    async def room(self) -> None:
        """Wait for room, and make some."""
        while len(self.guests) >= self.most:
            for guest in self.idlers():
                self.guests.discard(guest)
                if guest.task is not None:
                    guest.task.cancel()
            await asyncio.sleep(LOOK_AGAIN_S)

    def idlers(self) -> list[Guest]:
        """Return the guests who must leave: those who keep us waiting for too long."""
        now_s = self.clock()
        count = Counter(guest.uid for guest in self.guests)
        return [
            guest for guest in self.guests if _waited_s(guest, now_s) > self._patience_s(count[guest.uid])
        ]

    def _patience_s(self, of_user: int) -> float:
        return PATIENCE_WITH_MANY_S if 2 * of_user > self.most else PATIENCE_S

    async def send_home(self) -> None:
        """End every connection."""
        tasks = [guest.task for guest in self.guests if guest.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _waited_s(guest: Guest, now_s: float) -> float:
    return 0.0 if guest.idle_since_s is None else now_s - guest.idle_since_s
