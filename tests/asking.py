"""Asking a command for an answer without a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurmfair.cli import commands
from slurmfair.cli.terms import Asked
from slurmfair.paths import Paths
from slurmfair.reports import Caller, visible
from slurmfair.view import View

PATHS = Paths(Path("/var/lib/slurmfair"), Path("/run/slurmfair"))
ANN, BOB, ROOT = Caller(2001, "ann"), Caller(2002, "bob"), Caller(0, "root")


def ask(view: View, *words: str, caller: Caller = ANN, **more: Any) -> tuple[int, str, str]:
    """Return (exit status, stdout, stderr) of a command line."""
    command, *argv = words
    environment = {"TZ": "UTC"} | more.pop("environment", {})
    asked = Asked(argv, visible(view, caller), caller, PATHS, environment=environment, **more)
    reply = commands.answer(command, asked)
    return reply.code, "".join(reply.out), reply.err
