"""The policy files of the live tests: one pool of all GPUs, divided by account."""

from __future__ import annotations

LEVELS = "job_priority: {qos: {urgent: 9, normal: 5, scavenger: 1}, default: 5}"


def gpu_pool(*quotas: str, pool: tuple[str, ...] = (), top: tuple[str, ...] = ()) -> str:
    """Return a policy with these quotas, and more lines for the pool and above it; `Site` puts in the interval."""
    whole = ("version: 1", "cycle: {interval: {interval}}", *top, "pools:", "  gpu:")
    of_pool = ("partitions: [train, interactive]", "resource: gres/gpu", *pool, "quotas:")
    lines = [*whole, *(f"    {line}" for line in of_pool), *(f"      {line}" for line in quotas)]
    return "\n".join(lines) + "\n"


def quota(name: str, account: str = "", **settings: object) -> str:
    """Return the line of a quota for an account, its own name where none is given."""
    return f"{name}: {{match: {{accounts: [{account or name}]}}{_listed(settings)}}}"


def group(name: str, *quotas: str, **settings: object) -> str:
    """Return the line of a quota that holds others."""
    return f"{name}: {{quotas: {{{', '.join(quotas)}}}{_listed(settings)}}}"


def _listed(settings: dict[str, object]) -> str:
    return "".join(f", {key}: {value}" for key, value in settings.items())
