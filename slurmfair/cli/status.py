"""slurmfair status: how the daemon is, and what it decided last."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from slurmfair.cli.records import meta, number
from slurmfair.cli.terms import VERSION, Asked, Parser, Reply, Say
from slurmfair.cli.text import Clock, amount, clock, printable, words

MOST_NAMED = 6  # quotas in one line


@cache
def parser() -> Parser:
    """Return the parser of `slurmfair status`."""
    out = Parser(prog="slurmfair status", description="How slurmfaird is, and what it decided last.")
    out.add_argument("--json", action="store_true", help="as JSON")
    out.add_argument("-V", "--version", action=Say, text=VERSION, help="show the version and end")
    return out


def parse(argv: list[str]) -> argparse.Namespace:
    return parser().parse(argv)


def reply(asked: Asked) -> Reply:
    """Return the state of the daemon; exit status 1 if its data are old or something needs a look."""
    given = parse(list(asked.argv))
    found = complaints(asked)
    out = _as_json(asked, found) if given.json else _lines(asked, found)
    return Reply(out, code=1 if found else 0)


def complaints(asked: Asked) -> list[str]:
    """Return what somebody should look at."""
    about = asked.view.about
    found = [asked.away] if asked.away else []
    if about.get("refused_policy"):
        found.append(f"policy refused, the one before stays in force: {about['refused_policy']}")
    found += [f"override refused: {text}" for text in about.get("refused_overrides", ())]
    found += [f"degraded: {text}" for text in about.get("degraded", ())]
    return found


def warnings_of(about: dict[str, Any]) -> list[str]:
    """Return what the last cycle, the policy and the cluster's settings warn of."""
    return [
        text for name in ("warnings", "policy_warnings", "cluster_warnings") for text in about.get(name, ())
    ]


def _as_json(asked: Asked, found: list[str]) -> Iterator[str]:
    about = asked.view.about
    overrides = [
        dict(zip(("pool", "key", "value", "user", "time"), row, strict=True)) for row in about["overrides"]
    ]
    body = {
        "healthy": not found,
        "complaints": found,
        "shadow": bool(about.get("shadow")),
        "pid": about.get("pid", 0),
        "policy_file": about.get("policy_file", ""),
        "network": asked.network,
        "waiting_jobs": about["n_waiting"],
        "cycle": {name: about[name] for name in ("changes", "written", "left_over", "cycle_s")},
        "pools": [_pool_record(row, asked) for row in about["pools"]],
        "overrides": overrides,
    }
    rest = {
        "last_update": number(asked.now_s),
        "meta": meta(asked, "slurmfair status"),
        "errors": [],
        "warnings": [{"description": text, "source": "slurmfaird"} for text in warnings_of(about)],
    }
    yield json.dumps({"status": body, **rest}, indent=2) + "\n"


def _pool_record(row: dict[str, Any], asked: Asked) -> dict[str, Any]:
    names = ("pool", "partitions", "resource", "capacity", "configured", "free")
    return {name: row[name] for name in names} | {
        "fairshare_enabled": row["fairshare"]["enabled"],
        "history_from": number(row["history_from_s"]),
        "capacity_from": number(row["capacity_from_s"]),
        "short": [dict(zip(("quota", "share", "comes_to"), one, strict=True)) for one in row["short"]],
        "pending": _pending(row["pool"], asked),
    }


def _pending(pool: str, asked: Asked) -> int:
    return sum(row["pending"] for row in asked.view.quotas if row["pool"] == pool and row["depth"] == 0)


def _lines(asked: Asked, found: list[str]) -> Iterator[str]:
    about = asked.view.about
    at = clock(asked.environment.get("TZ", ""))
    how = "needs a look" if found else "healthy"
    mode = ", shadow: nothing is written to Slurm" if about.get("shadow") else ""
    yield f"slurmfaird {about.get('version', '')} on cluster {about['cluster']}: {how}{mode}\n"
    yield "".join(f"  ! {printable(line)}\n" for text in found for line in text.splitlines())
    yield f"Decided     {at(asked.now_s)}, {words(asked.age_s)} ago, in {about['cycle_s']:.2f} s\n"
    yield (
        f"Writes      {about['written']} of {about['changes']} changes went out"
        f"{', ' + str(about['left_over']) + ' wait for the next cycle' if about['left_over'] else ''}\n"
    )
    yield f"Policy      {about.get('policy_file', '')}\n"
    if asked.network:
        yield f"Network     {printable(asked.network)}\n"
    for row in about["pools"]:
        yield _pool_line(row, asked)
        yield _short_line(row)
        yield _history_line(row, at)
    for pool, key, value, who, at_s in about["overrides"]:
        yield f"Override    {pool} {key}={value}, by {who} at {at(at_s)}\n"
    yield "".join(f"Warning     {printable(text)}\n" for text in warnings_of(about))


def _history_line(row: dict[str, Any], at: Clock) -> str:
    """Say since when the past is known; slurmdbd's events do not reach us, so capacity is known from our first look."""
    since_s = max(row["history_from_s"], row["capacity_from_s"])
    before = (
        f"; capacity since {at(since_s)}, before that as it was then"
        if since_s > row["history_from_s"]
        else ""
    )
    return f"History     {row['pool']} since {at(row['history_from_s'])}{before}\n"


def _short_line(row: dict[str, Any]) -> str:
    """Say whose promises exceed what there is, and what they come to; nothing where none do."""
    short = row["short"]
    if not short:
        return ""
    each = ", ".join(f"{path} {comes_to:.4g} of {share:.4g}" for path, share, comes_to in short[:MOST_NAMED])
    more = f" and {len(short) - MOST_NAMED} more" if len(short) > MOST_NAMED else ""
    return (
        f"Short       {row['pool']}: more is promised and wanted than there is; in proportion {each}{more}\n"
    )


def _pool_line(row: dict[str, Any], asked: Asked) -> str:
    share = row["fairshare"]
    rule = f"fair share on (k={share['k']:g}, {share['enforce']})" if share["enabled"] else "fair share off"
    down = row["configured"] - row["capacity"]
    outage = f", {amount(down)} down" if down else ""
    return (
        f"Pool        {row['pool']} ({','.join(row['partitions'])}): {amount(row['free'])} of "
        f"{amount(row['capacity'])} {row['resource']} free{outage}, {_pending(row['pool'], asked)} jobs wait, {rule}\n"
    )
