"""The users of a lab: unix users in its root, accounts and QOS in Slurm's database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .settings import DEFAULT_QOS, Settings

FIRST_UID = 2001


def add_unix_users(settings: Settings, etc: Path, home: Path) -> None:
    """Append the users to the root's files and make their homes."""
    present = {row.partition(":")[0] for row in (etc / "passwd").read_text().splitlines()}
    wanted = [name for name in dict.fromkeys(settings.unix_users) if name not in present]
    with (etc / "passwd").open("a") as passwd, (etc / "group").open("a") as group:
        for uid, name in enumerate(wanted, FIRST_UID):
            passwd.write(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n")
            group.write(f"{name}:x:{uid}:\n")
            (home / name).mkdir(parents=True)
            os.chown(home / name, uid, uid)


def database_script(settings: Settings) -> str:
    """Return what sacctmgr is told, line by line."""
    return "".join(f"{line}\n" for line in database_lines(settings))


def database_lines(settings: Settings) -> Iterator[str]:
    """Yield the commands for the cluster, QOS, accounts and users."""
    yield f"add cluster {settings.name}"
    for qos in settings.qos:
        if qos != DEFAULT_QOS:  # Slurm makes this one
            yield f"add qos {qos}"
    yield (
        f"modify account where name=root cluster={settings.name}"
        f" set qos={','.join(settings.qos)} defaultqos={DEFAULT_QOS}"
    )
    yield from account_lines(settings)
    yield f"add user {settings.administrator} account=root adminlevel=Administrator"
    yield f"add user {settings.operator} account=root adminlevel=Operator"


def account_lines(settings: Settings) -> Iterator[str]:
    """Yield the commands for accounts and their users, parents first."""
    for parent in dict.fromkeys(settings.parents.values()):
        yield f"add account {parent} cluster={settings.name}"
    for account, users in settings.accounts.items():
        parent = settings.parents.get(account, "root")
        yield f"add account {account} parent={parent} cluster={settings.name}"
        yield f"add user {','.join(users)} account={account} cluster={settings.name}"
