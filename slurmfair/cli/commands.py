"""The commands that are answered from the published view, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from slurmfair.cli.terms import Asked, Finished, Reply
from slurmfair.client import full_name
from slurmfair.errors import SlurmfairError

MODULES = {
    "sfprio": "slurmfair.cli.prio",
    "sfshare": "slurmfair.cli.share",
    "status": "slurmfair.cli.status",
    "explain": "slurmfair.cli.explain",
    "set": "slurmfair.cli.set",
    "unset": "slurmfair.cli.unset",
}
ON_DISK = frozenset({"set", "unset"})  # commands that write: they wait for the disk
EXIT_FAILED = 1


def module_of(command: str) -> ModuleType:
    """Return the module with `parse(argv)` and `reply(asked)` of a command.

    Raises:
        SlurmfairError: there is no such command.
    """
    if command not in MODULES:
        raise SlurmfairError(
            f"{command[:40]!r} is no command of the reporter; known are {', '.join(MODULES)}"
        )
    return import_module(MODULES[command])


def answer(command: str, asked: Asked) -> Reply:
    """Return what a command prints; mistakes of the caller become its stderr and exit status."""
    try:
        answered: Callable[[Asked], Reply] = module_of(command).reply
        return answered(asked)
    except Finished as done:
        return done.reply
    except SlurmfairError as err:
        return Reply(err=f"{full_name(command)}: error: {err}\n", code=EXIT_FAILED)


def answer_alone(command: str, argv: list[str]) -> int | None:
    """Print what needs no view (help, version, a mistake in the options); return None if the view is needed."""
    try:
        module_of(command).parse(argv)
    except Finished as done:
        sys.stdout.write("".join(done.reply.out))
        sys.stderr.write(done.reply.err)
        return done.reply.code
    except SlurmfairError as err:
        sys.stderr.write(f"{full_name(command)}: error: {err}\n")
        return EXIT_FAILED
    return None
