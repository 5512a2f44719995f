"""`slurmfair check FILE`: what is wrong with a policy file, with the cluster it is meant for, or what it says in full."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from slurmfair.config import Config
from slurmfair.config_cluster import check_against_cluster, wishes_of
from slurmfair.config_file import load_policy
from slurmfair.config_text import effective_yaml
from slurmfair.durations import GRAMMAR
from slurmfair.errors import PolicyError
from slurmfair.overrides import Setting, overridden
from slurmfair.paths import DEFAULT_CONFIG, Paths, default_paths
from slurmfair.slurm.cluster import Cluster
from slurmfair.slurm.settings import findings
from slurmfair.state import overrides_on_disk

Connect = Callable[[Config], Cluster]


def main(argv: list[str]) -> int:
    """Entry of `slurmfair check`. Exit status 1: something has to be mended."""
    given = _parser().parse_args(argv)
    database = Paths(given.state_dir, given.state_dir).database
    overrides = overrides_on_disk(database) if given.effective else ()
    return check(given.file, given.effective, overrides, _connect if given.slurm else None)


def _parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="slurmfair check", description="Look for mistakes in a policy file.")
    out.add_argument("file", nargs="?", default=str(DEFAULT_CONFIG), help="default: %(default)s")
    out.add_argument("--effective", action="store_true", help="print it with every default and override")
    out.add_argument("--slurm", action="store_true", help="also look at the settings of the running cluster")
    help_text = "where overrides are kept (default: %(default)s)"
    out.add_argument("--state-dir", type=Path, default=default_paths().state_dir, help=help_text)
    return out


def _connect(config: Config) -> Cluster:
    from slurmfair.daemon import (
        connect_to_slurm,  # pyslurm is an extra: imported only where a cluster is asked
    )

    return connect_to_slurm(config)


def check(
    path: str, effective: bool = False, overrides: Sequence[Setting] = (), connect: Connect | None = None
) -> int:
    """Print every mistake of a policy file to standard error and return 1; else a summary, or all of it, and 0.

    With overrides, the policy is judged and shown as the daemon would use it; with `connect`, its cluster is judged too.
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
    return _check_cluster(config, connect) if connect else 0


def _check_cluster(config: Config, connect: Connect) -> int:
    """Print what stands against the policy on its cluster; return 1 if anything forbids using it."""
    with closing(connect(config)) as cluster:
        settings, reading = cluster.settings(), cluster.read()
    asked = check_against_cluster(config, reading.partitions, reading.nodes)
    found = findings(settings, wishes_of(config))
    lines = [
        *(f"error: {text}" for text in asked.errors),
        *map(str, found),
        *(f"warning: {w}" for w in asked.warnings),
    ]
    print(*lines, sep="\n", end="\n" if lines else "", file=sys.stderr)
    errors = sum(line.startswith("error: ") for line in lines)
    print(
        f"cluster {settings.cluster}: {counted(errors, 'error')}, {counted(len(lines) - errors, 'other finding')}"
    )
    return 1 if errors else 0


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
