"""slurmfair top: quotas with bars, the heads of the queues and the last decisions, on a live screen."""

from __future__ import annotations

import argparse
import os
import select
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from slurmfair.cli.job_ids import shown
from slurmfair.cli.rows import aged, reason_of, state_of
from slurmfair.cli.text import amount, clock, fitted, printable, words
from slurmfair.client import ask
from slurmfair.errors import DaemonUnreachable, SlurmfairError
from slurmfair.paths import Paths, default_paths

if TYPE_CHECKING:
    from rich.text import Text

Row = Mapping[str, Any]
EVERY_S = 2.0
DECISIONS = 50
NARROWEST_BAR, WIDEST_BAR, BESIDE_BAR = 10, 40, 66
COLUMNS = (
    "job_id", "array_id", "array_task", "het_id", "het_offset", "task_list", "user", "pool", "quota", "standing", "outcome", "base",
    "effective", "position", "blocker", "waiting_s", "gpus", "cpus", "reason",
)  # fmt: skip
STYLES = {"#": "green", "+": "yellow", "-": "dim", ".": "blue"}
LEGEND = "# held  + held beyond deserved  - deserved and free  . fair share beyond"


@dataclass(frozen=True, slots=True)
class Told:
    """What the reporter said: how old it is, quotas, the first jobs of each queue, decisions."""

    age_s: float
    away: str
    about: Row
    quotas: Sequence[Row]
    heads: Sequence[Row]
    decisions: Sequence[Sequence[Any]]


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="slurmfair top", description="Quotas and queues on a live screen; q ends it."
    )
    out.add_argument(
        "-d",
        "--delay",
        type=float,
        default=EVERY_S,
        metavar="SECONDS",
        help="between two looks (default: %(default)s)",
    )
    out.add_argument("-n", "--iterations", type=int, default=0, metavar="N", help="end after so many looks")
    out.add_argument(
        "-b",
        "--batch",
        action="store_true",
        help="print once as plain text; so it is where there is no terminal",
    )
    return out


def main(argv: list[str] | None = None) -> int:
    """Entry of `slurmfair top`."""
    given = parser().parse_args(argv)
    if given.delay < 0.1:
        raise SlurmfairError(f"--delay {given.delay:g}: wait at least 0.1 s between two looks")
    try:
        from rich.text import Text  # noqa: F401
    except ImportError as err:
        raise SlurmfairError(
            "slurmfair top needs the package rich; install it: pip install 'slurmfair[top]'"
        ) from err
    paths = default_paths()
    if given.batch or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        told = look(paths)
        print("\n".join(line.plain for line in screen(told, 100, 1000)))
        return 1 if told.away else 0
    return _live(paths, given.delay, given.iterations)


def look(paths: Paths) -> Told:
    """Ask the reporter for everything on the screen.

    Raises:
        SlurmfairError: nobody answers.
    """
    first = ask(paths, "quotas")
    jobs = ask(paths, "jobs", columns=list(COLUMNS), first=3)["body"]
    decisions = ask(paths, "decisions", n=DECISIONS)["body"]
    return Told(first["age_s"], first["away"], first["about"], first["body"], _rows(jobs), decisions)


def _rows(body: Row) -> list[Row]:
    """Return the jobs as rows with texts."""
    columns = [
        [body["texts"][name][code] for code in values] if name in body["texts"] else values
        for name, values in body["columns"].items()
    ]
    return [dict(zip(body["columns"], row, strict=True)) for row in zip(*columns, strict=True)]


def screen(told: Told, width: int, height: int) -> list[Text]:
    """Return the lines of a screen of this size."""
    from rich.text import Text

    lines = [Text(title(told), style="bold")]
    if told.away:
        lines += [Text(line, style="red") for line in textwrap.wrap(printable(told.away), width)]
    lines += [*_pools(told), Text("")]
    rest = max(0, height - len(lines))
    quotas = list(_quotas(told, width))
    heads = [Text(line) for line in _heads(told)]
    latest = [Text(line) for line in _decisions(told)]
    n_quotas = min(len(quotas), max(4, rest // 2))
    n_heads = min(len(heads), max(2, (rest - n_quotas - 2) * 2 // 3))
    lines += [*_cut(quotas, n_quotas), Text(""), *_cut(heads, n_heads), Text(""), *latest]
    out = lines[:height]
    for line in out:
        line.truncate(width)
    return out


def _cut(lines: list[Text], most: int) -> list[Text]:
    from rich.text import Text

    return (
        lines
        if len(lines) <= most
        else [*lines[: most - 1], Text(f"  ... {len(lines) - most + 1} more", style="dim")]
    )


def title(told: Told) -> str:
    about = told.about
    mode = ", shadow" if about.get("shadow") else ""
    return f"slurmfair on {about['cluster']}{mode}: {about['n_waiting']} jobs wait, decided {words(told.age_s)} ago; q ends this"


def _pools(told: Told) -> Iterator[Text]:
    from rich.text import Text

    for pool in told.about["pools"]:
        yield Text(
            f"{pool['pool']}: {amount(pool['free'])} of {amount(pool['capacity'])} {pool['resource']} free"
        )


def _quotas(told: Told, width: int) -> Iterator[Text]:
    from rich.text import Text

    wide = max(NARROWEST_BAR, min(WIDEST_BAR, width - BESIDE_BAR))
    numbers = "".join(name.rjust(7) for name in ("HELD", "DESRVD", "SHARE", "LIMIT", "WAIT"))
    yield Text(f"{'QUOTA':<16} {'':<{wide}} {numbers}  POLICY", style="bold")
    capacity = {pool["pool"]: float(pool["capacity"]) for pool in told.about["pools"]}
    for row in told.quotas:
        line = Text(fitted("  " * row["depth"] + printable(row["quota"].rpartition(".")[2]), 16, False) + " ")
        for letter in bar(row, capacity.get(row["pool"], 1.0), wide):
            line.append(letter, style=STYLES.get(letter, ""))
        limit = "-" if row["limit"] is None else amount(row["limit"])
        values = (
            amount(row["allocated"]),
            amount(row["deserved"]),
            amount(row["fair_share"]),
            limit,
            str(row["pending"]),
        )
        line.append(
            " " + "".join(value.rjust(7) for value in values) + f"  {row['policy'] if row['leaf'] else ''}"
        )
        yield line
    yield Text(LEGEND, style="dim")


def bar(quota: Row, capacity: float, width: int) -> str:
    """Return what a quota holds, deserves and is due, on a scale from 0 to the pool's capacity."""
    scale = width / max(capacity, 1.0)

    def cells(value: float) -> int:
        return min(width, round(value * scale))

    held, deserved, share = (cells(quota[name]) for name in ("allocated", "deserved", "fair_share"))
    letters = []
    for cell in range(width):
        if cell < held:
            letters.append("#" if cell < deserved else "+")
        elif cell < deserved:
            letters.append("-")
        else:
            letters.append("." if cell < share else " ")
    return "".join(letters)


def _heads(told: Told) -> Iterator[str]:
    yield f"{'QUOTA':<14} {'JOBID':<12} {'USER':<8} {'PRIO':>5} {'GPUS':>4} {'STATE':<10} {'REASON':<13} WAITS"
    for row in sorted(told.heads, key=lambda row: (row["pool"], row["quota"], row["position"])):
        name = shown(
            *(row[key] for key in ("job_id", "array_id", "array_task", "task_list", "het_id", "het_offset"))
        )
        state = state_of(row["standing"], row["outcome"], row["quota"])
        reason = reason_of(state, row["outcome"], row["blocker"], row["reason"])
        waiting = words(told.about["now_s"] - row["waiting_s"]) if row["waiting_s"] >= 0 else "-"
        cells = ((row["quota"], 14), (name, 12), (row["user"], 8))
        left = " ".join(fitted(printable(text), width, False) for text, width in cells)
        right = f"{aged(row['base'], row['effective']):>5} {row['gpus']:>4} {state:<10} {fitted(printable(reason), 13, False)}"
        yield f"{left} {right} {waiting}"


def _decisions(told: Told) -> Iterator[str]:
    at = clock(os.environ.get("TZ", ""))
    yield "LAST DECISIONS"
    for at_s, job_id, what, why in told.decisions:
        yield f"{at(at_s)[11:]}  {job_id or '':>10}  {fitted(printable(what), 24, False)} {printable(why)}"


def _live(paths: Paths, delay_s: float, iterations: int) -> int:
    """Show the screen until q is pressed, or so many looks were taken; return 1 if nobody answered the last one."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(no_color=True if _colourless() else None)
    told, looked_s = look(paths), time.monotonic()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        for n in count(1):
            live.update(Group(*screen(told, console.width, console.height - 1)), refresh=True)
            if n == iterations or pressed(delay_s):
                break
            before_s, looked_s = looked_s, time.monotonic()
            told = _look_again(paths, told, looked_s - before_s)
    return 1 if told.away else 0


def _colourless() -> bool:
    """Tell whether the terminal has no colours, as its description says; rich asks for its name alone."""
    import curses

    try:
        curses.setupterm()
    except curses.error:
        return False
    return curses.tigetnum("colors") < 8


def _look_again(paths: Paths, before: Told, passed_s: float) -> Told:
    """Return what the reporter says now; what it said before, so much older now, where nobody answers."""
    try:
        return look(paths)
    except DaemonUnreachable as err:
        return replace(before, age_s=before.age_s + passed_s, away=str(err))


@contextmanager
def _keys() -> Iterator[Any]:
    """Give a function that waits for a while and tells whether q was pressed; the terminal is left as it was."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield lambda wait_s: bool(select.select([], [], [], wait_s)[0])
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(wait_s: float) -> bool:
    ready = select.select([sys.stdin], [], [], wait_s)[0]
    return bool(ready) and os.read(sys.stdin.fileno(), 100) in (b"q", b"Q", b"\x03", b"\x1b", b"")
