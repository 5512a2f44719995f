from __future__ import annotations

from slurmfair.crowd import PATIENCE_S, PATIENCE_WITH_MANY_S, Crowd


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
    clock.now_s = PATIENCE_WITH_MANY_S + 0.01
    assert set(crowd.idlers()) == set(greedy)
    clock.now_s = PATIENCE_S + 0.01
    assert set(crowd.idlers()) == {*greedy, modest}


def test_who_waits_for_us_never_has_to_leave() -> None:
    clock = Clock()
    crowd = Crowd(2, clock)
    guest, idle = crowd.enter(1000), crowd.enter(1000)
    guest.waits_for_us()
    clock.now_s = 100.0
    assert crowd.idlers() == [idle]
