"""The policy file: YAML text in, a frozen Config out, or all mistakes at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from slurmfair import yaml_lines as yl
from slurmfair.config import Config, Cycle, FairShare, JobPriority, Ranks, Reports, Window
from slurmfair.config_kinds import Mistake, Spot, scalar_text
from slurmfair.config_quotas import Tree, read_quotas
from slurmfair.config_schema import (
    ALL_FAIRSHARE_ROWS,
    ALL_POOL_ROWS,
    CYCLE_ROWS,
    FAIL_OPEN_ROW,
    FAIRSHARE_ROWS,
    JOB_PRIORITY_ROWS,
    POLICY_ROWS,
    POOL,
    POOL_ROWS,
    QUOTA,
    RANKS_ROWS,
    REPORTS_ROWS,
    TOP_ROWS,
    WINDOW_ROWS,
)
from slurmfair.config_sections import Values, fill, read_named, read_section
from slurmfair.errors import PolicyError
from slurmfair.problems import Problems, nearest, shortened

LEAVE = "leave"


def load_policy(path: str | Path) -> Config:
    """Return the policy of a file; raises PolicyError with every mistake, or with why it cannot be read."""
    try:
        with open(path, "rb") as file:
            raw = file.read(yl.MAX_BYTES + 1)
    except OSError as err:
        raise PolicyError([f"{path}: cannot be read: {err.strerror}"]) from err
    try:
        text = raw.decode("utf-8-sig") if len(raw) <= yl.MAX_BYTES else " " * len(raw)
    except UnicodeDecodeError as err:
        line = raw[: err.start].count(b"\n") + 1
        raise PolicyError([f"{path}:{line}: not UTF-8 text; save the file as UTF-8"]) from err
    return parse_policy(text, str(path))


def parse_policy(text: str, source: str) -> Config:
    """Return the policy of a text; `source` names it in messages. Raises PolicyError with every mistake."""
    return read_policy(text, source, {}, {})


def read_policy(text: str, source: str, overrides: Mapping[str, yl.Node], told: dict[int, str]) -> Config:
    """Return the policy of a text with settings by key path laid over it.

    The nodes of overrides have negative lines; `told` says what to call each in messages.
    """
    problems = Problems(source, told)
    root = yl.read_yaml(text, problems)
    if root is None:
        if not problems.lines:
            problems.add(1, "", "the file is empty; a policy has at least version and pools")
        problems.refuse()
    config = _read_top(root, Spot(problems, "", overrides))
    problems.raise_any()
    return replace(config, source=source, warnings=problems.warnings, text=text)


def _read_top(root: yl.Node, spot: Spot) -> Config:
    values = read_section(root, TOP_ROWS, spot)
    found = values.found
    nothing = yl.Mapping({}, {}, root.line)
    cycle = read_section(found.get("cycle", nothing), CYCLE_ROWS, spot / "cycle")
    ranks = read_section(found.get("ranks", nothing), RANKS_ROWS, spot / "ranks")
    job_priority = read_section(found.get("job_priority", nothing), JOB_PRIORITY_ROWS, spot / "job_priority")
    reports = read_section(found.get("reports", nothing), REPORTS_ROWS, spot / "reports")
    trees = _read_pools(found["pools"], spot / "pools") if "pools" in found else []
    for tree in trees:
        _warn_fast_decay(tree, fill(Cycle(), CYCLE_ROWS, cycle).interval_s)
    if "unmatched" in found:
        _resolve_unmatched(found["unmatched"], trees, spot / "unmatched")
    for tree in trees:
        tree.warn_unreachable()
    config = Config(
        pools=tuple(tree.pool for tree in trees),
        cycle=fill(Cycle(), CYCLE_ROWS, cycle),
        ranks=fill(Ranks(), RANKS_ROWS, ranks),
        job_priority=fill(JobPriority(qos={}), JOB_PRIORITY_ROWS, job_priority),
        reports=fill(Reports(), REPORTS_ROWS, reports),
    )
    return fill(config, TOP_ROWS, values)


def _read_pools(node: yl.Node, spot: Spot) -> list[Tree]:
    """Return the pools in the order of the file; a partition belongs to one of them."""
    trees: list[Tree] = []
    owner: dict[str, str] = {}
    for name, pool_node in read_named(node, "pool", spot):
        tree = _read_pool(name, pool_node, spot / name)
        for partition in tree.pool.partitions:
            if partition in owner:
                reason = (
                    f"{shortened(partition)} belongs to pool {owner[partition]} too; a partition has one pool"
                )
                (tree.spot / "partitions").report(tree.values.line_of("partitions"), reason)
            owner.setdefault(partition, name)
        trees.append(tree)
    return trees


def _read_pool(name: str, node: yl.Node, spot: Spot) -> Tree:
    values = read_section(node, ALL_POOL_ROWS, spot)
    found = values.found
    pool = fill(replace(POOL, name=name), POOL_ROWS, values)
    if found.get("partitions") == ():
        (spot / "partitions").report(values.line_of("partitions"), "an empty list; a pool has partitions")
    fairshare_node = found.get("fairshare", yl.Mapping({}, {}, node.line))
    fairshare = read_section(fairshare_node, ALL_FAIRSHARE_ROWS, spot / "fairshare")
    pool = replace(pool, fairshare=_fairshare(fairshare, "fairshare" in found, spot / "fairshare"))
    tree = Tree(pool, spot, values, fairshare)
    inherited = replace(fill(QUOTA, (FAIL_OPEN_ROW,), values), policy=fill(QUOTA.policy, POLICY_ROWS, values))
    if "quotas" in found:
        read_quotas(found["quotas"], tree, spot / "quotas", inherited)
    return tree


def _fairshare(values: Values, given: bool, spot: Spot) -> FairShare:
    """Return the settings of time-based fair share; report those that contradict each other."""
    window = fill(Window(), WINDOW_ROWS, values)
    fairshare = replace(fill(FairShare(), FAIRSHARE_ROWS, values), window=window)
    if window.type == "cron" and "window.cron" not in values.lines:
        reason = "type is cron, but there is no cron line; give cron: '0 0 * * 1'"
        (spot / "window").report(values.line_of("window.type"), reason)
    if window.type != "cron" and "window.cron" in values.lines:
        (spot / "window" / "cron").report(
            values.lines["window.cron"], "has no effect without type: cron; add it"
        )
    if given and "half_life" not in values.lines:
        spot.warn(values.line, "no half_life: a window without decay; write half_life: 0 if that is meant")
    if fairshare.preset == "kai" and "usage" not in values.lines:
        fairshare = replace(fairshare, usage="total")
    return fairshare


def _warn_fast_decay(tree: Tree, interval_s: float) -> None:
    half_life_s = tree.pool.fairshare.half_life_s
    if 0 < half_life_s < interval_s:
        reason = f"{half_life_s:g} s is below the cycle interval of {interval_s:g} s: use is forgotten as soon as it is seen"
        (tree.spot / "fairshare" / "half_life").warn(tree.fairshare_values.line_of("half_life"), reason)


def _resolve_unmatched(node: yl.Node, trees: list[Tree], spot: Spot) -> None:
    """Set the leaf for jobs that no rule matches: `leave`, a path in every pool that has it, or pool.path."""
    try:
        path = scalar_text(node, "leave, or the path of a quota")
    except Mistake as mistake:
        spot.report(node.line, str(mistake))
        return
    if path == LEAVE:
        return
    leaves = _leaves_named(path, trees)
    for tree, leaf in leaves.items():
        tree.pool = replace(tree.pool, unmatched=leaf)
    if not leaves:
        paths = [quota.path for tree in trees for quota in tree.pool.quotas if quota.is_leaf]
        spot.report(
            node.line, f"{shortened(path)!r} is no leaf of the quotas; {nearest(path, [LEAVE, *paths])}"
        )


def _leaves_named(path: str, trees: list[Tree]) -> dict[Tree, int]:
    """Return the leaf of this path in every pool that has it, else the one that `pool.path` names."""
    in_any = {tree: leaf for tree in trees if (leaf := tree.leaf_of_path(path)) is not None}
    pool, _, rest = path.partition(".")
    here = [tree for tree in trees if tree.pool.name == pool]
    return in_any or {tree: leaf for tree in here if (leaf := tree.leaf_of_path(rest)) is not None}
