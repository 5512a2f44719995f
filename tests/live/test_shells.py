"""Completion in the shells that people sit at, and man pages, as they are installed."""

from __future__ import annotations

import re

import pytest

from tests.lab import Lab
from tests.live.busy import Busy
from tests.live.terminal import Terminal

SHARE = "/opt/venv/share"
SHELLS = {
    "bash": ("bash --noprofile --norc", ". /usr/share/bash-completion/bash_completion"),
    "zsh": (
        "zsh -f",
        f"fpath=({SHARE}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -d ~/.zcompdump",
    ),
}
PAGES = ["man1/sfprio.1", "man1/sfshare.1", "man1/slurmfair.1", "man5/slurmfair.yaml.5", "man8/slurmfaird.8"]


class Shell(Terminal):
    """A shell of a user who has just logged in, with completion switched on."""

    def __init__(self, lab: Lab, name: str, user: str) -> None:
        command, completion = SHELLS[name]
        super().__init__(lab, 100, 30, user=user, shell=command)
        self.enter(f"PS1='> '; {completion}; clear; echo ready")
        self.until(lambda screen: screen.startswith("ready\n>"), "the prompt")

    def completed(self, typed: str) -> str:
        """Return what one Tab makes of a line that was typed, without blanks at its end."""
        self.write(typed)
        self.keys("Tab")
        self.write(" end")  # an automatic comma or blank goes
        line = re.compile(r"(?m)^> (.*) end$")
        screen = self.until(line.search, "the line goes on")
        found = line.search(screen)
        assert found
        return found[1].rstrip()

    def proposed(self, typed: str) -> set[str]:
        """Return the words that are listed below a line that was typed."""
        self.write(typed)
        self.keys("Tab", "Tab")
        seen: list[str] = []

        def listed(screen: str) -> bool:
            seen.append(
                "\n".join(line for line in screen.splitlines() if not line.startswith((">", "ready")))
            )
            return bool(seen[-1].strip()) and seen[-1:] == seen[-2:-1]

        self.until(listed, "a list that stands still")
        return set(seen[-1].replace("\\", "").split())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("sfprio --lo", "sfprio --long"),
        ("sfprio -q v", "sfprio -q vision"),
        ("sfprio -q vision,sp", "sfprio -q vision,speech"),
        ("sfprio -p tr", "sfprio -p train"),
        ("sfprio -u f", "sfprio -u finn"),
        ("sfshare --js", "sfshare --json"),
        ("sfshare -A llm.e", "sfshare -A llm.eval"),
        ("slurmfair exp", "slurmfair explain"),
        ("slurmfair explain --j", "slurmfair explain --json"),
        ("slurmfair set g", "slurmfair set gpu"),
        ("slurmfair history --po", "slurmfair history --pool"),
        ("slurmfair history sp", "slurmfair history speech"),
    ],
)
def test_tab_completes(busy: Busy, shell: str, typed: str, line: str) -> None:
    with Shell(busy.site.lab, shell, "finn") as one:
        assert one.completed(typed) == line


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_gives_the_only_job_of_a_user(busy: Busy, shell: str) -> None:
    job = str(busy.jobs["s1"])
    for command in ("sfprio -j", "slurmfair explain"):
        with Shell(busy.site.lab, shell, "finn") as one:
            assert one.completed(f"{command} ") == f"{command} {job}"


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_lists_the_jobs_of_a_user_and_no_others(busy: Busy, shell: str) -> None:
    alone, array = busy.jobs["e1"], busy.jobs["e2"]
    with Shell(busy.site.lab, shell, "dora") as one:
        same = common(str(alone), str(array))
        words = one.proposed(f"slurmfair explain {same}")
    assert {word for word in words if word[:1].isdigit()} == {str(alone), f"{array}_[3-9]"}


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_lists_quotas_partitions_and_commands(busy: Busy, shell: str) -> None:
    for typed, wanted in {
        "sfprio -q ": {"llm", "llm.eval", "llm.pretrain", "speech", "vision"},
        "slurmfair ": {"check", "explain", "history", "plan", "set", "status", "top", "unset"},
    }.items():
        with Shell(busy.site.lab, shell, "finn") as one:
            assert wanted <= one.proposed(typed)
    with Shell(busy.site.lab, shell, "finn") as one:
        assert one.completed("sfprio -p i") == "sfprio -p interactive"


def common(one: str, other: str) -> str:
    """Return what two texts begin with."""
    length = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return one[:length]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_renders_without_a_warning(lab: Lab, page: str) -> None:
    done = lab.run(["groff", "-ww", "-man", "-Tutf8", f"{SHARE}/man/{page}"])
    assert done.stderr == ""
    assert "{{" not in done.stdout
    assert "slurmfair" in done.stdout


def test_all_pages_are_installed_and_rendered(lab: Lab) -> None:
    found = lab.run(["sh", "-c", f"cd {SHARE}/man && ls */*"]).stdout.split()
    assert found == PAGES


def test_groff_would_warn_of_a_mistake(lab: Lab) -> None:
    done = lab.run(["groff", "-ww", "-man", "-Tutf8"], input=".TH X 1\n.SH NAME\n.nonsense here\n")
    assert "warning" in done.stderr
