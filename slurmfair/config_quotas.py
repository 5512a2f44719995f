"""The tree of quotas of one pool, from YAML to a flat list, with the checks that need more than one key."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from slurmfair import yaml_lines as yl
from slurmfair.config import Match, Pool, Quota
from slurmfair.config_kinds import Mistake, Spot, number_text, read_number, scalar_text
from slurmfair.config_rules import RuleIndex
from slurmfair.config_schema import ALL_QUOTA_ROWS, FAIL_OPEN_ROW, MATCH_ROWS, POLICY_ROWS, QUOTA_ROWS
from slurmfair.config_sections import Values, fill, read_named, read_section
from slurmfair.model import MEM, RESOURCES
from slurmfair.problems import nearest, shortened

MOST = 1e12  # units of a resource
SELF = "self"
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([MGT])", re.ASCII)
_MIB = {"M": 1, "G": 1024, "T": 1024 * 1024}


@dataclass(slots=True, eq=False)
class Tree:
    """A pool while it is read: what the file says, and where."""

    pool: Pool
    spot: Spot
    values: Values
    fairshare_values: Values
    quotas: list[Quota] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)  # of each quota
    quota_values: list[Values] = field(default_factory=list)
    rules: RuleIndex = field(default_factory=RuleIndex)

    def leaf_of_path(self, path: str) -> int | None:
        """Return the index of a leaf, for an inner quota that of its own jobs; None where there is none."""
        leaves = {quota.path: index for index, quota in enumerate(self.pool.quotas) if quota.is_leaf}
        return leaves.get(path, leaves.get(f"{path}.{SELF}"))

    def warn_unreachable(self) -> None:
        """Warn of leaves that no job can reach."""
        for index, (quota, spot, values) in enumerate(
            zip(self.quotas, self.spots, self.quota_values, strict=True)
        ):
            if quota.is_leaf and not quota.matches and index != self.pool.unmatched:
                spot.warn(values.line, "no rule: no job can reach it; give it match, or name it in unmatched")


def read_quotas(node: yl.Node, tree: Tree, spot: Spot, inherited: Quota) -> None:
    """Read all quotas of a pool into the tree and its pool; report what does not fit together."""
    _read_level(node, tree, spot, inherited, parent=-1)
    _check_amounts(tree)
    tree.pool = replace(tree.pool, quotas=tuple(tree.quotas))


def _read_level(node: yl.Node, tree: Tree, spot: Spot, inherited: Quota, parent: int) -> None:
    for name, quota_node in read_named(node, "quota", spot):
        path = f"{inherited.path}.{name}" if inherited.path else name
        _read_quota(quota_node, tree, spot / name, replace(inherited, path=path, parent=parent))


def _read_quota(node: yl.Node, tree: Tree, spot: Spot, inherited: Quota) -> None:
    """Append a quota, then those below it, then the leaf for its own jobs: rules are tried in this order."""
    values = read_section(node, ALL_QUOTA_ROWS, spot)
    found = values.found
    resources = tree.pool.resources
    quota = replace(
        fill(inherited, (*QUOTA_ROWS, FAIL_OPEN_ROW), values),
        policy=fill(inherited.policy, POLICY_ROWS, values),
        is_leaf="quotas" not in found,
        deserved=_read_amounts(found.get("deserved"), resources, spot / "deserved", 0.0),
        limit=_read_amounts(found.get("limit"), resources, spot / "limit", math.inf),
    )
    index = len(tree.quotas)
    _append(tree, quota, spot, values)
    if "quotas" in found:
        below = replace(inherited, path=quota.path, policy=quota.policy, fail_open=quota.fail_open)
        _read_level(found["quotas"], tree, spot / "quotas", below, index)
    if "match" in found:
        matches = _read_rules(found["match"], tree, spot / "match")
        if quota.is_leaf:
            tree.quotas[index] = replace(quota, matches=matches)
        else:
            _append(tree, _own_jobs(quota, index, tree, matches), spot, values)


def _append(tree: Tree, quota: Quota, spot: Spot, values: Values) -> None:
    tree.quotas.append(quota)
    tree.spots.append(spot)
    tree.quota_values.append(values)


def _own_jobs(quota: Quota, index: int, tree: Tree, matches: tuple[Match, ...]) -> Quota:
    """Return the implicit leaf for jobs of an inner quota itself (SEMANTICS 8, A16)."""
    siblings = [child.priority for child in tree.quotas[index + 1 :] if child.parent == index]
    return replace(
        quota,
        path=f"{quota.path}.{SELF}",
        parent=index,
        is_leaf=True,
        matches=matches,
        deserved=(0.0,) * len(quota.deserved),
        limit=(math.inf,) * len(quota.limit),
        weight=1.0,
        priority=min(siblings, default=quota.priority),
    )


def _read_rules(node: yl.Node, tree: Tree, spot: Spot) -> tuple[Match, ...]:
    """Return the rules of one quota; report those that no job can meet."""
    listed = isinstance(node, yl.Sequence)
    items = node.items if isinstance(node, yl.Sequence) else (node,)
    if not items:
        spot.report(node.line, "an empty list matches no job; give a rule as {accounts: [name]}")
    return tuple(_read_rule(item, tree, spot.item(i) if listed else spot) for i, item in enumerate(items))


def _read_rule(node: yl.Node, tree: Tree, spot: Spot) -> Match:
    values = read_section(node, MATCH_ROWS, spot)
    for key, names in values.found.items():
        if not names:
            (spot / key).report(
                values.lines[key], "an empty list matches no job; leave the key out to match all"
            )
        if key in ("accounts", "qos") and any(name != name.lower() for name in names):
            (spot / key).warn(
                values.lines[key], "Slurm keeps these names in lower case: capitals match no job"
            )
    foreign = [name for name in values.found.get("partitions", ()) if name not in tree.pool.partitions]
    for name in foreign:
        reason = f"{shortened(name)} is not a partition of this pool; {nearest(name, tree.pool.partitions)}"
        (spot / "partitions").report(values.lines["partitions"], reason)
    match = Match(**{key: frozenset(names) for key, names in values.found.items()})
    taker = tree.rules.add(match, node.line, tree.pool.partitions)
    if taker is not None and not foreign:
        spot.report(
            node.line,
            f"can never match: rules before it (line {taker}) take all its jobs; put this one first",
        )
    return match


def _read_amounts(
    node: yl.Node | None, resources: tuple[int, ...], spot: Spot, default: float
) -> tuple[float, ...]:
    """Return an amount for each resource of the pool; a plain number is one of the main resource."""
    amounts = dict.fromkeys(resources, default)
    names = [RESOURCES[resource] for resource in resources]
    if isinstance(node, yl.Mapping):
        for name, value in node.entries.items():
            if name in names:
                _read_amount(value, RESOURCES.index(name), spot / name, amounts)
            else:
                reason = (
                    f"not a resource of this pool; {nearest(name, names)}, or add it to the pool's resource"
                )
                (spot / name).report(node.key_lines[name], reason)
    elif node is not None:
        _read_amount(node, resources[0], spot, amounts)
    return tuple(amounts.values())


def _read_amount(node: yl.Node, resource: int, spot: Spot, amounts: dict[int, float]) -> None:
    unlimited = math.isinf(amounts[resource])
    try:
        amount = _amount(node, resource)
        if amount == -1 and unlimited:
            return
        if not 0 <= amount <= MOST:
            raise Mistake(f"{number_text(amount)} is " + ("negative" if amount < 0 else "too large"))
        amounts[resource] = amount
    except Mistake as mistake:
        spot.report(node.line, str(mistake))


def _amount(node: yl.Node, resource: int) -> float:
    wanted = f"a number of {RESOURCES[resource]}"
    with_unit = _MEMORY.fullmatch(scalar_text(node, wanted)) if resource == MEM else None
    if with_unit is None:
        return read_number(node, wanted)
    return float(with_unit[1]) * _MIB[with_unit[2]]


def _check_amounts(tree: Tree) -> None:
    """Fill in deserved of inner quotas that do not say it; report what a limit makes impossible."""
    for position, resource in enumerate(tree.pool.resources):
        below = [0.0] * len(tree.quotas)  # deserved of the children together
        for index in reversed(range(len(tree.quotas))):
            quota = tree.quotas[index]
            said = _said(tree.quota_values[index], resource, tree.pool.resources[0])
            deserved = quota.deserved[position] if said or quota.is_leaf else below[index]
            if deserved != quota.deserved[position]:
                amounts = (*quota.deserved[:position], deserved, *quota.deserved[position + 1 :])
                tree.quotas[index] = replace(quota, deserved=amounts)
            _check_amount(tree, index, RESOURCES[resource], deserved, below[index], quota.limit[position])
            if quota.parent >= 0:
                below[quota.parent] += max(deserved, below[index])


def _said(values: Values, resource: int, main: int) -> bool:
    """Whether the file gives the quota's deserved of this resource."""
    node = values.found.get("deserved")
    return (
        RESOURCES[resource] in node.entries
        if isinstance(node, yl.Mapping)
        else node is not None and resource == main
    )


def _check_amount(tree: Tree, index: int, resource: str, deserved: float, below: float, limit: float) -> None:
    values, spot = tree.quota_values[index], tree.spots[index]
    if below > limit:
        reason = f"its quotas deserve {number_text(below)} {resource} together, above its limit {number_text(limit)}"
        spot.report(values.line_of("limit"), reason)
    elif deserved > limit:
        reason = f"limit {number_text(limit)} is below deserved {number_text(deserved)} {resource}; raise it"
        (spot / "limit").report(values.line_of("limit"), reason)
    elif below > deserved:
        reason = f"its quotas deserve {number_text(below)} {resource} together, above its own {number_text(deserved)}"
        spot.warn(values.line_of("deserved"), reason)
