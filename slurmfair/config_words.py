"""Kinds of values that are words: names, patterns, dates, time zones, cron lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from slurmfair import yaml_lines as yl
from slurmfair.address import FORM, host_and_port
from slurmfair.config_kinds import LEVEL, Kind, Mistake, Spot, in_quotes, quoted, scalar_text, show_names
from slurmfair.problems import nearest, shortened

LEAST_PORT = 1024  # the reporter has no right to the ones below


def read_name(node: yl.Node, wanted: str) -> str:
    """Return a name as Slurm's accounts, users, QOS and partitions have, or raise Mistake."""
    text = scalar_text(node, wanted)
    if not text.isprintable() or len(text) > 200 or not text or re.search(r"[\s,]", text):
        raise Mistake(f"{shortened(text)!r} is not a name; names are short, without spaces and commas")
    return text


def _read_names(node: yl.Node, spot: Spot) -> tuple[str, ...]:
    """Return the names of a list; each wrong or repeated item is a mistake of its own."""
    if not isinstance(node, yl.Sequence):
        raise Mistake(f"not a list of names; write [{_one_name(node)}]")
    found: dict[str, None] = {}
    for index, item in enumerate(node.items):
        try:
            name = read_name(item, "a name")
        except Mistake as mistake:
            spot.item(index).report(item.line, str(mistake))
            continue
        if name in found:
            spot.item(index).report(item.line, f"{shortened(name)} stands here twice; remove one")
        found[name] = None
    return tuple(found)


def _one_name(node: yl.Node) -> str:
    return shortened(node.text) if isinstance(node, yl.Scalar) and not node.empty else "name, name"


def _read_levels(node: yl.Node, spot: Spot) -> dict[str, int]:
    """Return job priorities by name; each wrong one is a mistake of its own."""
    if not isinstance(node, yl.Mapping):
        raise Mistake("not a mapping of names to 1 to 9; write {name: 5}")
    levels = {}
    for name, value in node.entries.items():
        try:
            levels[name] = LEVEL.read(value, spot)
        except Mistake as mistake:
            (spot / name).report(node.key_lines[name], str(mistake))
    return levels


def _show_levels(levels: Mapping[str, int] | None) -> str:
    return "{" + ", ".join(f"{quoted(name)}: {level}" for name, level in (levels or {}).items()) + "}"


def _read_pattern(node: yl.Node, spot: Spot) -> str:
    text = scalar_text(node, "a regular expression with one group, as 'prio=([1-9])'")
    try:
        groups = re.compile(text).groups
    except (re.error, OverflowError, RecursionError) as err:
        raise Mistake(f"not a regular expression: {err}") from err
    if text and groups != 1:
        raise Mistake(f"has {groups} groups; put one pair of brackets around the number, as 'prio=([1-9])'")
    return text


def _read_moment(node: yl.Node, spot: Spot) -> float:
    text = scalar_text(node, "a date or time as 2026-01-05 or 2026-01-05T00:00:00+01:00")
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as err:
        reason = f"{shortened(text)!r} is not a date or time; write 2026-01-05 or 2026-01-05T00:00:00+01:00"
        raise Mistake(reason) from err


def _show_moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=1)
def _zones() -> tuple[str, ...]:
    return tuple(sorted(available_timezones()))


def _read_zone(node: yl.Node, spot: Spot) -> str:
    text = scalar_text(node, "a time zone as Europe/Berlin")
    try:
        return ZoneInfo(text).key
    except (KeyError, ValueError, OSError) as err:
        raise Mistake(f"unknown time zone {shortened(text)!r}; {nearest(text, _zones())}") from err


def _read_cron(node: yl.Node, spot: Spot) -> str:
    text = scalar_text(node, "a cron line as '0 0 * * 1'")
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as err:
        raise Mistake("cron windows need the package cronsim; pip install 'slurmfair[cron]'") from err
    try:
        if len(text.split()) != 5:
            raise Mistake(f"{shortened(text)!r} has not five fields; write minute, hour, day, month, weekday")
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration, ValueError) as err:
        raise Mistake(f"{shortened(text)!r} is not a cron line that ever fires: {err}") from err
    return text


def _read_address(node: yl.Node, spot: Spot) -> str:
    """Return HOST:PORT, "" for `off`."""
    text = scalar_text(node, f"{FORM}, or off")
    if text.lower() in ("off", "no", "false"):
        return ""
    try:
        _, port = host_and_port(text)
    except ValueError as err:
        raise Mistake(f"{shortened(text)!r}: {err}") from err
    if port < LEAST_PORT:
        raise Mistake(f"port {port} is for root alone; take one from {LEAST_PORT} to 65535")
    return text


NAMES = Kind("a list of names", _read_names, show_names)
LEVELS = Kind("a mapping of names to 1 to 9", _read_levels, _show_levels)
PATTERN = Kind("a regular expression with one group", _read_pattern, in_quotes)
MOMENT = Kind("a date or time, UTC unless it says otherwise", _read_moment, _show_moment)
ZONE = Kind("a time zone, as `Europe/Berlin`", _read_zone, str)
CRON = Kind("a cron line, as `0 0 * * 1`", _read_cron, in_quotes)
ADDRESS = Kind(
    "`off`, or HOST:PORT (IPv6 in quotes: `'[::]:6830'`)",
    _read_address,
    lambda address: in_quotes(address) if address else "off",
)
