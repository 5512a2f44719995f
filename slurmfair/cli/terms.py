"""What a command is asked with, what it answers, and the parser they all share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from slurmfair import __version__
from slurmfair.paths import Paths
from slurmfair.reports import Caller
from slurmfair.view import View


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line and everything its answer may depend on. `view` holds only what the caller may see."""

    argv: Sequence[str]
    view: View
    caller: Caller
    paths: Paths
    age_s: float = 0.0
    away: str = ""  # why the data are old, "" while the daemon decides as usual
    environment: Mapping[str, str] = field(default_factory=dict)
    terminal: bool = False
    width: int = 0  # columns of the terminal, 0 for none
    network: str = ""  # how the reporter answers the network, "" where it does not

    @property
    def colour(self) -> bool:
        return (
            self.terminal and not self.environment.get("NO_COLOR") and self.environment.get("TERM") != "dumb"
        )

    @property
    def now_s(self) -> int:
        """The time of the decision that is shown."""
        return int(self.view.about["now_s"])


@dataclass(frozen=True, slots=True)
class Reply:
    """Text in pieces (made while it is sent, so that a long answer delays nobody else's), and the exit status.

    `shared` says that the text depends on nothing but the command line and the part of the view that is
    seen (of sfshare also on who asks), so that others who ask the same may get it too.
    """

    out: Iterable[str] = ()
    err: str = ""
    code: int = 0
    shared: bool = False


class Finished(Exception):
    """The command line asks for nothing but a text: help, version, or what is wrong with it."""

    def __init__(self, code: int, out: str = "", err: str = "") -> None:
        super().__init__(err or out)
        self.reply = Reply((out,) if out else (), err, code)


class Parser(argparse.ArgumentParser):
    """argparse that answers instead of printing and leaving, because it runs in the reporter."""

    def error(self, message: str) -> NoReturn:
        raise Finished(
            1, err=f'{self.prog}: error: {message}\nTry "{self.prog} --help" for more information\n'
        )

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Finished(status, err=message or "")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        """Return the options. As in getopt, an option takes the next word for its value even if it begins with "-"."""
        words = iter(argv)
        out: list[str] = []
        for word in words:
            value = next(words, None) if self._wants_value(word) else None
            glue = "=" if word.startswith("--") else ""
            out += [word] if value is None else [word + glue + value] if value else [word, value]
        return self.parse_args(out)

    def _wants_value(self, word: str) -> bool:
        if word.startswith("--"):
            return self._takes_value(word)
        letters = word[1:] if word.startswith("-") else ""
        takes = [self._takes_value(f"-{letter}", optional=True) for letter in letters]
        return bool(letters) and self._takes_value(f"-{letters[-1]}") and not any(takes[:-1])

    def _takes_value(self, option: str, optional: bool = False) -> bool:
        action = self._option_string_actions.get(option)
        return action is not None and (action.nargs is None or (optional and action.nargs == "?"))

    def print_help(self, file: object = None) -> NoReturn:
        raise Finished(0, out=self.format_help())


class Say(argparse.Action):
    """An option that answers with a text, made when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, text: str = "", help: str = "") -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)
        self.text = text

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> NoReturn:
        raise Finished(0, out=self.text or parser.format_usage())


VERSION = f"slurmfair {__version__}\n"
ELSEWHERE = (
    "On a host without the daemon's socket the server is asked that SLURMFAIR_SERVER or /etc/slurmfair/server "
    "names: HOST:PORT; see LOGIN NODES in slurmfair(1)."
)


def split(text: str) -> list[str]:
    """Return the parts of a comma separated list."""
    return [part for part in (piece.strip() for piece in text.split(",")) if part]


def add_common(parser: Parser, help_format: str) -> None:
    """Options that every Slurm command has."""
    parser.add_argument("--help", action="help", help="show this text and end")
    parser.add_argument("--usage", action=Say, help="show a summary of the options and end")
    parser.add_argument(
        "--helpformat", action=Say, text=help_format, help="list the fields for --format and end"
    )
    parser.add_argument("-V", "--version", action=Say, text=VERSION, help="show the version and end")
    parser.add_argument(
        "-v", "--verbose", action="count", default=0, help="say how old the data are, and from where"
    )


def note(asked: Asked, command: str, hidden: int = 0, verbose: int = 0) -> str:
    """Return what stands on stderr beside an answer."""
    lines = []
    if asked.away:
        lines.append(f"{command}: {asked.away}")
    if hidden and (asked.terminal or verbose):
        lines.append(f"{command}: {hidden} jobs of other users are not shown (PrivateData=jobs)")
    if verbose:
        about = asked.view.about
        lines.append(
            f"{command}: cluster {about.get('cluster', '')}, decided {asked.age_s:.1f} s ago, {asked.paths.socket}"
        )
    return "".join(line + "\n" for line in lines)
