"""What one lab is made of: its folder, names, ports, people and lines of slurm.conf."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import LabError

ACCOUNTS: dict[str, tuple[str, ...]] = {
    "vision": ("ann", "bob"),
    "llm-pretrain": ("cid", "dora"),
    "llm-eval": ("cid", "dora"),
    "speech": ("eve", "finn"),
}
PARENTS = {"llm-pretrain": "llm", "llm-eval": "llm"}
QOS = ("normal", "urgent", "scavenger")
DEFAULT_QOS = "normal"


@dataclass(frozen=True, slots=True)
class Settings:
    """One lab; two labs side by side need different folders, and names if they share a network.

    `conf` holds lines of slurm.conf by key, over the lab's own; None removes a line. A line of a
    node or partition has a key such as "PartitionName=train". `shards` is a number for each GPU node.
    """

    dir: Path
    cache: Path
    name: str = "lab"
    hostname: str = "labhost"
    base_port: int = 17000
    own_network: bool = True
    gate: bool = False
    shards: int = 0
    conf: Mapping[str, str | None] = field(default_factory=dict)
    accounts: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(ACCOUNTS))
    parents: Mapping[str, str] = field(default_factory=lambda: dict(PARENTS))
    qos: tuple[str, ...] = QOS
    administrator: str = "slurmfair"
    operator: str = "oper"
    stranger: str = "nobody2"

    def __post_init__(self) -> None:
        for path in (self.dir, self.cache):
            if not path.is_absolute() or any(sign in str(path) for sign in ":,\\ \n'\""):
                raise LabError(str(path), "overlayfs cannot take this path", "choose a plain one")

    @property
    def people(self) -> tuple[str, ...]:
        """The users who submit jobs."""
        return tuple(dict.fromkeys(name for users in self.accounts.values() for name in users))

    @property
    def unix_users(self) -> tuple[str, ...]:
        """All users that the lab adds to the root."""
        return (*self.people, self.administrator, self.operator, self.stranger)

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self), default=str))
        return values


def from_json(values: Mapping[str, Any]) -> Settings:
    """Return settings that `as_json` wrote."""
    accounts = {name: tuple(users) for name, users in values["accounts"].items()}
    plain = {**values, "dir": Path(values["dir"]), "cache": Path(values["cache"])}
    return Settings(**{**plain, "accounts": accounts, "qos": tuple(values["qos"])})


def from_environment(**given: Any) -> Settings:
    """Return settings from arguments that are not None, then SLURMFAIR_LAB_*, then defaults."""
    values = {
        "dir": os.environ.get("SLURMFAIR_LAB_DIR") or "/tmp/slurmfair-lab",
        "cache": os.environ.get("SLURMFAIR_LAB_CACHE") or "/var/cache/slurmfair-lab",
        "name": os.environ.get("SLURMFAIR_LAB_NAME"),
        "hostname": os.environ.get("SLURMFAIR_LAB_HOSTNAME"),
        "base_port": os.environ.get("SLURMFAIR_LAB_PORT"),
        **{name: value for name, value in given.items() if value is not None},
    }
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in ("dir", "cache"):
        chosen[name] = Path(os.path.abspath(chosen[name]))
    if "base_port" in chosen:
        chosen["base_port"] = int(chosen["base_port"])
    return Settings(**chosen)
