"""slurmfair top on real terminals: what the screen shows, cell by cell, and how it ends."""

from __future__ import annotations

import re

import pytest

from tests import golden
from tests.live.busy import Busy
from tests.live.terminal import PROMPT, Terminal

TOP = "slurmfair top -d 0.5"
COLOURED = re.compile(r"\x1b\[([0-9]+;)*(3[0-8]|4[0-8]|9[0-7])[;m]")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (132, 40)])
def test_the_screen_is_as_drawn(busy: Busy, width: int, height: int) -> None:
    with Terminal(busy.site.lab, width, height) as terminal:
        terminal.enter(f"exec {TOP}")
        screen = terminal.until_shows("LAST DECISIONS")
    golden.check(f"top/live_{width}x{height}.txt", busy.settled(screen))


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "vt100"}])
def test_without_colour_the_screen_says_the_same(busy: Busy, env: dict[str, str]) -> None:
    words = " ".join(f"{name}={value}" for name, value in env.items())
    with Terminal(busy.site.lab) as terminal:
        terminal.enter(f"exec env {TOP}")
        terminal.until_shows("LAST DECISIONS")
        assert COLOURED.search(terminal.screen(escapes=True)), "in colour by itself"
    with Terminal(busy.site.lab) as terminal:
        terminal.enter(f"exec env {words} {TOP}")
        screen = terminal.until_shows("LAST DECISIONS")
        assert COLOURED.search(terminal.screen(escapes=True)) is None
    golden.check("top/live_80x24.txt", busy.settled(screen))


def test_the_screen_follows_the_size_of_its_terminal(busy: Busy) -> None:
    with Terminal(busy.site.lab) as terminal:
        terminal.enter(f"exec {TOP}")
        small = busy.settled(terminal.until_shows("LAST DECISIONS"))
        terminal.resize(132, 40)
        large = golden.text("top/live_132x40.txt")
        terminal.until(lambda screen: busy.settled(screen) == large, "as if started so large")
        terminal.resize(80, 24)
        terminal.until(lambda screen: busy.settled(screen) == small, "as it was")
        terminal.resize(40, 10)
        tiny = terminal.until(lambda screen: "QUOTA" in screen and "speech" not in screen, "cut to 10 lines")
        assert len(tiny.splitlines()) <= 10


@pytest.mark.parametrize(("key", "status"), [("q", 0), ("Q", 0), ("Escape", 0), ("C-c", 130)])
def test_a_key_ends_it_and_the_terminal_is_as_before(busy: Busy, key: str, status: int) -> None:
    with Terminal(busy.site.lab) as terminal:
        terminal.enter("stty -a > before; clear; echo mine")
        before = terminal.until(lambda screen: screen.startswith("mine"), "a screen of mine")
        terminal.enter(TOP)
        terminal.until_shows("LAST DECISIONS")
        terminal.keys(key)
        after = terminal.until_shows(TOP)
        assert after.splitlines()[0] == "mine", "the screen from before is back"
        assert after.splitlines()[1].startswith(before.splitlines()[1].rstrip())
        terminal.enter('echo "status $?"; stty -a | cmp - before && echo same')
        told = terminal.until_shows("\nsame")
        assert f"\nstatus {status}\n" in told
        assert "Traceback" not in told
        assert terminal.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split() == ["0", "1"]


def test_the_last_view_stays_and_ages_while_the_daemon_is_away(busy: Busy) -> None:
    with Terminal(busy.site.lab) as terminal:
        terminal.enter(TOP)
        terminal.until_shows("LAST DECISIONS")
        busy.site.stop()
        try:
            told = terminal.until_shows("nobody answers")
            assert "systemctl status slurmfaird" in " ".join(told.split())
            assert "speech" in told, "quotas are still shown"
            terminal.until(lambda screen: age_s(screen) >= age_s(told) + 2, "the age grows")
        finally:
            busy.site.start()
        terminal.until(lambda screen: "nobody answers" not in screen and age_s(screen) < 3, "as before")
        terminal.keys("q")
        terminal.until(lambda screen: screen.rstrip().endswith(PROMPT.strip()), "the shell")
        terminal.enter('echo "status $?"')
        terminal.until_shows("\nstatus 0")


def test_a_daemon_that_stays_away_is_in_the_exit_status(busy: Busy) -> None:
    with Terminal(busy.site.lab) as terminal:
        terminal.enter(TOP)
        terminal.until_shows("LAST DECISIONS")
        busy.site.stop()
        try:
            terminal.until_shows("nobody answers")
            terminal.keys("q")
            terminal.enter('echo "status $?"')
            terminal.until_shows("\nstatus 1")
            terminal.enter(f"clear; {TOP}; echo status $?")
            assert "slurmfair top: error:" in terminal.until_shows("\nstatus 1"), "nothing to show yet"
        finally:
            busy.site.start()


def age_s(screen: str) -> int:
    """Return how old the title says the decision is."""
    found = re.search(r"decided (less than a second|(\d+) s) ago", screen)
    assert found, screen
    return int(found[2] or 0)
