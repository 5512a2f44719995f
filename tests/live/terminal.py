"""A terminal inside a lab, driven through tmux: keys go in, the screen comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Self

from tests.lab import Lab
from tests.live.site import Site

NUMBERS = count(1)
PROMPT = "$ "


class Terminal:
    """A shell on a screen of a given size; everything that runs in it ends with the block."""

    def __init__(
        self,
        lab: Lab,
        width: int = 80,
        height: int = 24,
        user: str = "finn",
        shell: str = "bash --noprofile --norc",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.lab, self.user = lab, user
        self.socket = f"slurmfair-test-{next(NUMBERS)}"
        given = {"PS1": PROMPT, "TZ": "UTC", **(env or {})}
        words = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(width), "-y", str(height)]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, *words, f"exec {shell}")

    def tmux(self, *words: str) -> str:
        """Run one command of tmux; return what it printed."""
        return self.lab.run(["tmux", "-L", self.socket, *words], user=self.user).stdout

    def keys(self, *names: str) -> None:
        """Press keys by tmux's names, such as Enter, Tab or C-c."""
        self.tmux("send-keys", *names)

    def write(self, text: str) -> None:
        """Type a text as it is."""
        self.tmux("send-keys", "-l", text)

    def enter(self, line: str) -> None:
        """Type a line and press Enter."""
        self.write(line)
        self.keys("Enter")

    def screen(self, escapes: bool = False) -> str:
        """Return the lines of the screen, blanks at their ends cut, optionally with colours as escape sequences."""
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, condition: Callable[[str], object], what: str, timeout_s: float = 30) -> str:
        """Wait until the screen is as it should be; return it."""
        seen = [""]

        def holds() -> bool:
            seen[0] = self.screen()
            return bool(condition(seen[0]))

        try:
            Site.wait(holds, what, timeout_s)
        except AssertionError as err:
            raise AssertionError(f"{err}; the screen:\n{seen[0]}") from None
        return seen[0]

    def until_shows(self, text: str, timeout_s: float = 30) -> str:
        """Wait until a text stands on the screen; return the screen."""
        return self.until(lambda screen: text in screen, f"shows {text!r}", timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, at: TracebackType | None
    ) -> None:
        self.lab.run(["tmux", "-L", self.socket, "kill-server"], user=self.user, check=False)
