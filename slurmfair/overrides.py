"""Settings changed at run time (`slurmfair set POOL KEY=VALUE`), laid over the policy file with the same checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slurmfair import yaml_lines as yl
from slurmfair.config import Config, Pool
from slurmfair.config_file import read_policy
from slurmfair.config_schema import ALL_FAIRSHARE_ROWS, FAIL_OPEN_ROW, POLICY_ROWS, POOL_ROWS, QUOTA_ROWS
from slurmfair.config_text import effective_yaml
from slurmfair.errors import PolicyError
from slurmfair.problems import Problems, nearest, shortened

_QUEUE_KEYS = tuple(row.key for row in (*POLICY_ROWS, FAIL_OPEN_ROW))
POOL_KEYS = (*(row.key for row in POOL_ROWS if row.key == "place_grace"), *_QUEUE_KEYS)
QUOTA_KEYS = (*(row.key for row in QUOTA_ROWS if row.key not in ("match", "quotas")), *_QUEUE_KEYS)
FAIRSHARE_KEYS = {name: row.key for row in ALL_FAIRSHARE_ROWS for name in (row.key, *row.aliases)}
_KEYS_OF_POOL = (*POOL_KEYS, *(f"fairshare.{row.key}" for row in ALL_FAIRSHARE_ROWS))


class Setting(Protocol):
    """One override; `state.Override` is one."""

    @property
    def pool(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Told:
    """An override as `slurmfair set` takes it."""

    pool: str
    key: str
    value: str


def full_key(config: Config, pool: str, key: str) -> str:
    """Return the key path of a setting in the policy file, the same for every way to write it.

    `k`, `fairshare.k` and `historicalUsageWeight` are one; so are `llm.eval.weight` and `quotas.llm.quotas.eval.weight`.
    Raises PolicyError for what cannot be set.
    """
    for candidate in config.pools:
        if candidate.name == pool:
            return f"pools.{pool}.{_key_in_pool(candidate, key)}"
    raise PolicyError(
        [f"set {shortened(pool)}: unknown pool; {nearest(pool, [p.name for p in config.pools])}"]
    )


def overridden(config: Config, overrides: Iterable[Setting]) -> Config:
    """Return the policy of the file with overrides laid over it; the last of two for one setting wins.

    It starts from the file always, so overrides of an earlier call do not pile up. Raises PolicyError with every
    mistake; each names its override.
    """
    problems: list[str] = []
    nodes: dict[str, yl.Node] = {}
    told: dict[int, str] = {}
    for number, override in enumerate(overrides, 1):
        told[-number] = f"set {override.pool} " + shortened(f"{override.key}={override.value}")
        try:
            nodes[full_key(config, override.pool, override.key)] = _node(override.value, -number, told)
        except PolicyError as err:
            problems += err.problems
    if problems:
        raise PolicyError(problems)
    return read_policy(config.text or effective_yaml(config), config.source, nodes, told) if nodes else config


def overridden_where_possible(config: Config, overrides: Sequence[Setting]) -> tuple[Config, tuple[str, ...]]:
    """Return the policy with those overrides that it can bear, and why the others cannot be used.

    For a policy file that has changed under overrides that were right when they were made.
    """
    kept: list[Setting] = []
    refused: list[str] = []
    result = config
    for override in overrides:
        try:
            result = overridden(config, [*kept, override])
            kept.append(override)
        except PolicyError as err:
            refused += [
                f"{problem}; end it with: slurmfair unset {override.pool} {override.key}"
                for problem in err.problems
            ]
    return result, tuple(refused)


def _key_in_pool(pool: Pool, key: str) -> str:
    """Return the key path below a pool, or raise PolicyError."""
    short = key.removeprefix("fairshare.").removeprefix("time_based_fairshare.")
    if key in POOL_KEYS:
        return key
    if short in FAIRSHARE_KEYS:
        return f"fairshare.{FAIRSHARE_KEYS[short]}"
    path, _, setting = key.rpartition(".")
    names = [name for name in path.split(".") if name != "quotas"]
    return "".join(f"quotas.{name}." for name in names) + _key_in_quota(pool, ".".join(names), setting, key)


def _key_in_quota(pool: Pool, path: str, setting: str, key: str) -> str:
    """Return a setting of a quota, or raise PolicyError with what is wrong about the whole key."""
    paths = [quota.path for quota in pool.quotas]
    if path in paths and setting in QUOTA_KEYS:
        return setting
    if path in paths:
        reason = f"unknown setting {shortened(setting)!r} of a quota; {nearest(setting, QUOTA_KEYS)}"
    elif path and path not in ("fairshare", "time_based_fairshare", "window", "fairshare.window"):
        reason = f"unknown quota {shortened(path)!r}; {nearest(path, paths)}"
    else:
        reason = f"unknown setting; {nearest(key, _KEYS_OF_POOL)}"
    raise PolicyError([f"set {pool.name} {shortened(key)}: {reason}"])


def _node(value: str, line: int, told: dict[int, str]) -> yl.Node:
    """Return the value as YAML, standing in a line of its own."""
    problems = Problems("", dict.fromkeys(range(value.count("\n") + 3), told[line]))
    node = yl.read_yaml(value, problems)
    problems.raise_any()
    return _moved(node, line) if node is not None else yl.Scalar("", True, line)


def _moved(node: yl.Node, line: int) -> yl.Node:
    """Return a tree that stands in one line."""
    if isinstance(node, yl.Scalar):
        return yl.Scalar(node.text, node.plain, line)
    if isinstance(node, yl.Sequence):
        return yl.Sequence(tuple(_moved(item, line) for item in node.items), line, node.size)
    entries = {key: _moved(value, line) for key, value in node.entries.items()}
    return yl.Mapping(entries, dict.fromkeys(entries, line), line, node.size)
