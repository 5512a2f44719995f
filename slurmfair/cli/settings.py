"""slurmfair set and unset: a setting changed at run time, until it is unset."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from slurmfair.cli.terms import VERSION, Asked, Parser, Reply, Say
from slurmfair.cli.text import printable
from slurmfair.config import Config
from slurmfair.config_file import load_policy
from slurmfair.errors import PolicyError, SlurmfairError
from slurmfair.overrides import full_key, overridden
from slurmfair.reports import NotAllowed
from slurmfair.state import Override, State


@cache
def parser(command: str) -> Parser:
    """Return the parser of `slurmfair set` or `slurmfair unset`."""
    setting = command == "set"
    out = Parser(
        prog=f"slurmfair {command}",
        description="Change settings of a pool until they are unset. They win over the policy file and survive restarts."
        if setting
        else "End a change made with slurmfair set: the policy file counts again.",
        epilog="Only root, the daemon's account and operators (AdminLevel Operator or Administrator in Slurm's accounting) may. "
        "slurmfair status lists what is set.",
    )
    out.add_argument("pool", metavar="POOL", help="name of a pool")
    form, example = (
        ("KEY=VALUE", "fairshare.k=2, vision.weight=3") if setting else ("KEY", "fairshare.k, vision.weight")
    )
    out.add_argument("settings", nargs="+", metavar=form, help=f"such as {example}")
    out.add_argument("-V", "--version", action=Say, text=VERSION, help="show the version and end")
    return out


def parse_as(command: str, argv: Sequence[str]) -> argparse.Namespace:
    return parser(command).parse(argv)


def reply_as(command: str, asked: Asked) -> Reply:
    """Do it, and return what was done.

    Raises:
        SlurmfairError: the caller may not, or the setting cannot be used.
    """
    given = parse_as(command, asked.argv)
    if not asked.caller.is_operator(asked.view):
        raise NotAllowed(
            f"user {asked.caller.name or asked.caller.uid} may not change settings; "
            "root, the daemon's account and operators (sacctmgr show user) may"
        )
    config = load_policy(Path(str(asked.view.about["policy_file"])))
    with closing(State(asked.paths.database)) as state:
        done = (_set if command == "set" else _unset)(state, config, given, asked)
    when = asked.away or "the daemon takes it up in its next cycle"
    return Reply((f"{printable(line)}\n" for line in [*done, when]), code=1 if asked.away else 0)


def _set(state: State, config: Config, given: argparse.Namespace, asked: Asked) -> list[str]:
    """All of the settings, or none if one cannot be used."""
    who, at_s = asked.caller.name or str(asked.caller.uid), int(time.time())
    new = []
    for text in given.settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise SlurmfairError(f"{text!r} is no setting; write KEY=VALUE, such as fairshare.k=2")
        new.append(Override(given.pool, _short(config, given.pool, key), value, who, at_s))
    replaced = {(one.pool, one.key) for one in new}
    old = [one for one in state.overrides() if (one.pool, one.key) not in replaced]
    overridden(config, new)  # mistakes of these settings alone, whatever else is set
    overridden(config, [*old, *new])
    for one in new:
        state.set_override(one)
    state.log_decisions(at_s, [(0, f"set {one.pool} {one.key}={one.value}", f"by {who}") for one in new])
    return [f"{one.pool} {one.key}={one.value} is set" for one in new]


def _unset(state: State, config: Config, given: argparse.Namespace, asked: Asked) -> list[str]:
    known = {(one.pool, one.key) for one in state.overrides()}
    keys = [key if (given.pool, key) in known else _short(config, given.pool, key) for key in given.settings]
    if missing := [key for key in keys if (given.pool, key) not in known]:
        listed = ", ".join(f"{pool} {key}" for pool, key in sorted(known)) or "nothing"
        raise SlurmfairError(f"{given.pool} {missing[0]} is not set; set at the moment: {listed}")
    for key in keys:
        state.unset_override(given.pool, key)
    who = asked.caller.name or str(asked.caller.uid)
    state.log_decisions(int(time.time()), [(0, f"unset {given.pool} {key}", f"by {who}") for key in keys])
    return [f"{given.pool} {key} is as the policy file says" for key in keys]


def _short(config: Config, pool: str, key: str) -> str:
    """Return the key below its pool, the same for every way to write it."""
    try:
        return full_key(config, pool, key).removeprefix(f"pools.{pool}.")
    except PolicyError as err:
        raise SlurmfairError(str(err)) from err
