"""`slurmfair check FILE`: what is wrong with a policy file, or what it says in full."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from slurmfair.config import Config
from slurmfair.config_file import load_policy
from slurmfair.config_text import effective_yaml
from slurmfair.durations import GRAMMAR
from slurmfair.errors import PolicyError
from slurmfair.overrides import Setting, overridden


def check(path: str, effective: bool = False, overrides: Sequence[Setting] = ()) -> int:
    """Print every mistake of a policy file to standard error and return 1; else a summary, or all of it, and 0.

    With overrides, the policy is judged and shown as the daemon would use it.
    """
    try:
        config = overridden(load_policy(path), overrides)
    except PolicyError as err:
        print(*err.problems, sep="\n", file=sys.stderr)
        print(f"{path}: {counted(len(err.problems), 'mistake')}", file=sys.stderr)
        return 1
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(_effective(config, overrides) if effective else summary(config), end="")
    return 0


def summary(config: Config) -> str:
    """Return what the policy holds, a line for each pool."""
    lines = [f"{config.source}: good, {counted(len(config.warnings), 'warning')}"]
    for pool in config.pools:
        leaves = sum(quota.is_leaf for quota in pool.quotas)
        share = "on" if pool.fairshare.enabled else "off"
        lines.append(
            f"  pool {pool.name}: {counted(len(pool.partitions), 'partition')}, {counted(leaves, 'leaf quota')}, "
            f"time-based fair share {share}"
        )
    return "\n".join(lines) + "\n"


def _effective(config: Config, overrides: Sequence[Setting]) -> str:
    told = "".join(f"# set {o.pool} {o.key}={o.value}\n" for o in overrides)
    return (
        f"# {config.source}, with every default. Lengths of time: {GRAMMAR}.\n{told}{effective_yaml(config)}"
    )


def counted(number: int, thing: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number} {thing}" if number == 1 else f"{number or 'no'} {thing}s"
