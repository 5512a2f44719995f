"""Stage lines with times."""

from __future__ import annotations

import sys
import time


class Stages:
    """Prints a line for each stage that is done, with the seconds it took."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.start_s = self.last_s = time.monotonic()

    def done(self, what: str) -> None:
        """Print the stage that has just ended."""
        now_s = time.monotonic()
        self.say(f"{what} {now_s - self.last_s:.1f} s")
        self.last_s = now_s

    def total(self, what: str) -> None:
        """Print the time since the first stage began."""
        self.say(f"{what} {time.monotonic() - self.start_s:.1f} s in all")

    def say(self, text: str) -> None:
        """Print one line unless quiet."""
        if not self.quiet:
            print(f"lab: {text}", file=sys.stdout, flush=True)
