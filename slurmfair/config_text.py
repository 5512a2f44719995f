"""The policy back as text: all of a Config as YAML for `check --effective`, and the tables of the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from slurmfair.config import (
    Config,
    Cycle,
    FairShare,
    JobPriority,
    Match,
    Pool,
    QueuePolicy,
    Quota,
    Ranks,
    Reports,
    Window,
)
from slurmfair.config_kinds import number_text, quoted
from slurmfair.config_quotas import SELF
from slurmfair.config_schema import (
    CYCLE_ROWS,
    FAIL_OPEN_ROW,
    FAIRSHARE_ROWS,
    JOB_PRIORITY_ROWS,
    MATCH_ROWS,
    POLICY_ROWS,
    POOL,
    POOL_ROWS,
    QUOTA,
    QUOTA_ROWS,
    RANKS_ROWS,
    REPORTS_ROWS,
    TOP_ROWS,
    WINDOW_ROWS,
    Row,
)
from slurmfair.model import RESOURCES

Section: TypeAlias = (
    Cycle | Ranks | Reports | JobPriority | FairShare | Window | QueuePolicy | Match | Quota | Pool | Config
)
Block: TypeAlias = "dict[str, str | Block]"

_EMPTY = Config((), Cycle(), Ranks(), JobPriority(qos={}))

REFERENCE: tuple[tuple[str, str, tuple[tuple[tuple[Row, ...], Section], ...]], ...] = (
    ("Top", "", ((TOP_ROWS, _EMPTY),)),
    ("cycle", "`cycle: {...}`", ((CYCLE_ROWS, Cycle()),)),
    ("ranks", "`ranks: {...}`", ((RANKS_ROWS, Ranks()),)),
    ("job_priority", "`job_priority: {...}`", ((JOB_PRIORITY_ROWS, JobPriority(qos={})),)),
    ("reports", "`reports: {...}`", ((REPORTS_ROWS, Reports()),)),
    ("Pool", "`pools: {NAME: {...}}`", ((POOL_ROWS, POOL),)),
    ("fairshare", "`fairshare: {...}` of a pool", ((FAIRSHARE_ROWS, FairShare()), (WINDOW_ROWS, Window()))),
    ("Quota", "`quotas: {NAME: {...}}` of a pool or quota", ((QUOTA_ROWS, QUOTA),)),
    (
        "Queue policy",
        "in a pool or quota; what is not set comes from above",
        ((POLICY_ROWS, QueuePolicy()), ((FAIL_OPEN_ROW,), QUOTA)),
    ),
    (
        "Rule",
        "`match: {...}` of a quota; every list that is given must hold the job's value",
        ((MATCH_ROWS, Match()),),
    ),
)


def effective_yaml(config: Config) -> str:
    """Return a policy as YAML with every default written out; reading it gives an equal Config."""
    block: Block = {
        "version": "1",
        "cycle": _settings(CYCLE_ROWS, config.cycle),
        "ranks": _settings(RANKS_ROWS, config.ranks),
        "job_priority": _settings(JOB_PRIORITY_ROWS, config.job_priority),
        "reports": _settings(REPORTS_ROWS, config.reports),
        "unmatched": _unmatched(config.pools),
        **_settings(TOP_ROWS, config),
        "pools": {quoted(pool.name): _pool(pool) for pool in config.pools},
    }
    return "\n".join(_lines(block, "")) + "\n"


def reference() -> str:
    """Return the tables of every key of the policy file, in Markdown."""
    parts = []
    for title, where, tables in REFERENCE:
        rows = [_reference_row(row, section) for some_rows, section in tables for row in some_rows]
        head = f"### {title}\n\n" + (f"{where[0].upper()}{where[1:]}.\n\n" if where else "")
        parts.append(head + "| key | value | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _reference_row(row: Row, section: Section) -> str:
    aliases = "".join(f"<br>also `{alias}`" for alias in row.aliases)
    return f"| `{row.key}`{aliases} | {row.kind.says} | {_default(row, section)} | {row.about} |"


def _default(row: Row, section: Section) -> str:
    if row.required:
        return "required"
    if row.without:
        return row.without
    value = getattr(section, row.field)
    return "none" if value is None or value in ("", (), frozenset(), {}) else f"`{row.kind.show(value)}`"


def _settings(rows: Iterable[Row], section: Section) -> Block:
    """Return the keys of a section with their values; keys that stand for nothing are left out."""
    block: Block = {}
    for row in rows:
        value = getattr(section, row.field) if row.field else None
        if value is None or (value == "" and row.key == "window.cron"):
            continue
        *outer, key = row.key.split(".")
        place = block
        for name in outer:
            inner = place.setdefault(name, {})
            assert isinstance(inner, dict)
            place = inner
        place[key] = row.kind.show(value)
    return block


def _unmatched(pools: tuple[Pool, ...]) -> str:
    """Return the path that `unmatched` has: bare where every pool that has it uses it, else with the pool."""
    using = [pool for pool in pools if pool.unmatched >= 0]
    if not using:
        return "leave"
    path = using[0].quotas[using[0].unmatched].path
    having = [pool for pool in pools if any(quota.path == path for quota in pool.quotas)]
    return quoted(path if having == using else f"{using[0].name}.{path}")


def _pool(pool: Pool) -> Block:
    fairshare = _settings(FAIRSHARE_ROWS, pool.fairshare) | _settings(WINDOW_ROWS, pool.fairshare.window)
    return _settings(POOL_ROWS, pool) | {"fairshare": fairshare, "quotas": _quotas(pool, -1)}


def _quotas(pool: Pool, parent: int) -> Block:
    below = [(i, quota) for i, quota in enumerate(pool.quotas) if quota.parent == parent]
    return {quoted(name): _quota(pool, i, quota) for i, quota in below if (name := _name(quota)) != SELF}


def _name(quota: Quota) -> str:
    return quota.path.rpartition(".")[2]


def _quota(pool: Pool, index: int, quota: Quota) -> Block:
    own = next((q for q in pool.quotas if q.parent == index and _name(q) == SELF), quota)
    block: Block = {}
    if own.matches:
        block["match"] = "[" + ", ".join(_match(match) for match in own.matches) + "]"
    block["deserved"] = _amounts(pool, quota.deserved)
    block["limit"] = _amounts(pool, quota.limit)
    block |= _settings(QUOTA_ROWS, quota)
    block |= _settings(POLICY_ROWS, quota.policy) | _settings((FAIL_OPEN_ROW,), quota)
    if not quota.is_leaf:
        block["quotas"] = _quotas(pool, index)
    return block


def _match(match: Match) -> str:
    lists = ((row, getattr(match, row.field)) for row in MATCH_ROWS)
    return "{" + ", ".join(f"{row.key}: {row.kind.show(names)}" for row, names in lists if names) + "}"


def _amounts(pool: Pool, amounts: tuple[float, ...]) -> str:
    pairs = zip(pool.resources, amounts, strict=True)
    return "{" + ", ".join(f"{RESOURCES[index]}: {number_text(amount)}" for index, amount in pairs) + "}"


def _lines(block: Mapping[str, str | Block], indent: str) -> Iterable[str]:
    for key, value in block.items():
        if isinstance(value, str):
            yield f"{indent}{key}: {value}"
        else:
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")


if __name__ == "__main__":
    print(reference(), end="")
