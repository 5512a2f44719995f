"""slurmfair history: allocation, fair share and usage over time as lines of text, CSV, or a picture."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from slurmfair.cli.text import amount, clock, fitted, words
from slurmfair.client import ask
from slurmfair.durations import policy_seconds
from slurmfair.errors import SlurmfairError
from slurmfair.paths import default_paths
from slurmfair.record import VALUES

Series = Mapping[tuple[str, str], Sequence[Sequence[Any]]]  # rows of time and VALUES by pool and quota
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*#%"
SHOWN = ("allocated", "fair_share", "usage")
WIDTH = 60


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="slurmfair history",
        description="Show what quotas held, were owed and had used over the last weeks.",
    )
    out.add_argument("quota", nargs="?", default="", metavar="QUOTA", help="path of a quota")
    out.add_argument("--all", action="store_true", help="all quotas")
    out.add_argument("--pool", default="", help="of this pool only")
    out.add_argument(
        "--since", default="7d", metavar="TIME", help="how far back, such as 12h or 7d (default: %(default)s)"
    )
    out.add_argument("--csv", action="store_true", help="every sample as CSV")
    out.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw a picture: FILE.svg, FILE.png or FILE.pdf"
    )
    return out


def main(argv: list[str] | None = None) -> int:
    """Entry of `slurmfair history`."""
    given = parser().parse_args(argv)
    if bool(given.quota) == given.all:
        raise SlurmfairError("name one quota, or say --all; sfshare lists the quotas")
    try:
        since_s = policy_seconds(given.since)
    except ValueError as err:
        raise SlurmfairError(f"--since: {err}") from err
    now_s = int(time.time())
    paths = default_paths()
    answer = ask(paths, "history", pool=given.pool, quota=given.quota, since_s=now_s - int(since_s))
    series = series_of(answer["body"])
    if not series:
        raise _nothing(given.quota, given.pool, [row["quota"] for row in ask(paths, "quotas")["body"]])
    if given.csv:
        write_csv(series, sys.stdout)
    elif given.plot:
        plot(series, given.plot)
    else:
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        print("\n".join(lines(series, now_s - int(since_s), now_s, BLOCKS if unicode else ASCII_BLOCKS)))
    return 1 if answer["away"] else 0


def series_of(samples: Sequence[Sequence[Any]]) -> Series:
    """Return the samples by pool and quota."""
    ordered = sorted(samples, key=lambda row: (row[1], row[2], row[0]))
    return {
        key: [[row[0], *row[3:]] for row in rows]
        for key, rows in groupby(ordered, lambda row: (row[1], row[2]))
    }


def _nothing(quota: str, pool: str, known: Sequence[str]) -> SlurmfairError:
    """Return why there is nothing to show."""
    if quota and quota not in known:
        near = get_close_matches(quota, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "sfshare lists the quotas"
        return SlurmfairError(f"no quota {quota!r}; {hint}")
    whose = f" of pool {pool}" if pool else ""
    return SlurmfairError(f"nothing is recorded{whose} for that time; the daemon writes a sample every 5 min")


def lines(series: Series, from_s: int, to_s: int, blocks: str = BLOCKS) -> list[str]:
    """Return a line of small bars for each value of each quota, on the scale of the largest amount of the quota."""
    at = clock(os.environ.get("TZ", ""))
    out = [f"{at(from_s)} to {at(to_s)}, {words((to_s - from_s) / WIDTH)} a column"]
    for (pool, quota), rows in series.items():
        out.append(f"{pool} {quota}")
        top = max(
            (row[1 + VALUES.index(name)] or 0.0 for row in rows for name in ("allocated", "fair_share")),
            default=0.0,
        )
        for name in SHOWN:
            values = [(row[0], row[1 + VALUES.index(name)]) for row in rows]
            most = 1.0 if name == "usage" else top
            drawn = sparkline(values, from_s, to_s, WIDTH, most, blocks)
            last = values[-1][1]
            shown = "-" if last is None else f"{last:.3f}" if name == "usage" else amount(last)
            out.append(
                f"  {fitted(name.replace('_', ' '), 11, False)}|{drawn}| now {shown} of {amount(most)}"
            )
    return out


def sparkline(
    values: Sequence[tuple[int, float | None]],
    from_s: int,
    to_s: int,
    width: int,
    most: float,
    blocks: str = BLOCKS,
) -> str:
    """Return the mean of each column as a bar; a column without samples is a dot."""
    step_s = max(1.0, (to_s - from_s) / width)
    columns: list[list[float]] = [[] for _ in range(width)]
    for at_s, value in values:
        if value is not None and from_s <= at_s <= to_s:
            columns[min(width - 1, int((at_s - from_s) / step_s))].append(value)
    return "".join(
        _bar(sum(column) / len(column), most, blocks) if column else "·" if "█" in blocks else "?"
        for column in columns
    )


def _bar(value: float, most: float, blocks: str) -> str:
    part = value / most if most > 0 else 0.0
    return blocks[min(len(blocks) - 1, max(0, round(part * (len(blocks) - 1))))]


def write_csv(series: Series, out: TextIO) -> None:
    """Write every sample with a header."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", "pool", "quota", *VALUES])
    for (pool, quota), rows in series.items():
        for at_s, *values in rows:
            writer.writerow([at_s, pool, quota, *("" if value is None else value for value in values)])


def plot(series: Series, path: Path) -> None:
    """Draw each quota: what it held, deserved and was owed.

    Raises:
        SlurmfairError: matplotlib is missing, or the file cannot be written.
    """
    try:
        from matplotlib.dates import AutoDateFormatter, AutoDateLocator, date2num
        from matplotlib.figure import Figure
    except ImportError as err:
        raise SlurmfairError(
            "--plot needs the package matplotlib; install it: pip install 'slurmfair[plot]'"
        ) from err
    figure = Figure(figsize=(10, 2.5 * len(series)), layout="constrained")
    axes = figure.subplots(len(series), 1, squeeze=False, sharex=True)[:, 0]
    for axis, ((pool, quota), rows) in zip(axes, series.items(), strict=True):
        days = [date2num(time_of(row[0])) for row in rows]
        columns = {name: [row[1 + n] for row in rows] for n, name in enumerate(VALUES)}
        axis.fill_between(days, columns["allocated"], step="post", alpha=0.4, label="held")
        axis.step(days, columns["fair_share"], where="post", label="fair share")
        axis.step(days, columns["deserved"], where="post", linestyle=":", label="deserved")
        axis.set_title(f"{pool} {quota}", loc="left", fontsize="medium")
        axis.set_ylim(bottom=0)
        locator = AutoDateLocator()
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(AutoDateFormatter(locator))
    axes[0].legend(loc="upper left", ncols=3, fontsize="small")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as err:
        raise SlurmfairError(f"{path}: cannot be drawn: {err}; end it in .svg, .png or .pdf") from err


def time_of(at_s: int) -> Any:
    from datetime import datetime

    return datetime.fromtimestamp(at_s)
