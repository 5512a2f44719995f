"""slurmfair: one name for everything that is not sprio's or sshare's."""

from __future__ import annotations

import sys

from slurmfair import __version__
from slurmfair.errors import SlurmfairError

ASKED = {  # answered by the reporter
    "status": "how the daemon is, and what it decided last",
    "explain": "why a job waits, and what has to happen",
    "set": "change a setting until it is unset: set POOL KEY=VALUE",
    "unset": "end such a change: unset POOL KEY",
}
OWN = {  # run here: module, function, text
    "top": ("slurmfair.cli.top", "main", "quotas and queues on a live screen"),
    "history": ("slurmfair.cli.history", "main", "allocation, fair share and usage of a quota over time"),
    "check": ("slurmfair.cli.check", "main", "look for mistakes in a policy file"),
    "plan": ("slurmfair.cli.operate", "plan_main", "what the daemon would write to Slurm now"),
    "release-all": ("slurmfair.cli.operate", "release_all_main", "release every hold of slurmfair's"),
    "serve": ("slurmfair.reporter", "main", "answer these commands (slurmfair-report.service)"),
    "guard": ("slurmfair.cli.operate", "guard_main", "release the holds of a daemon that is gone"),
}
EXIT_FAILED, EXIT_USAGE = 1, 2
ELSEWHERE = """
On a login node, name the host of the daemon: SLURMFAIR_SERVER=HOST:PORT, or HOST:PORT in /etc/slurmfair/server; see
LOGIN NODES in slurmfair(1)."""


def main() -> int:
    """Entry of slurmfair."""
    argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        return 0 if argv else EXIT_USAGE
    if argv[0] in ("-V", "--version"):
        sys.stdout.write(f"slurmfair {__version__}\n")
        return 0
    if argv[0] in ASKED:
        from slurmfair.client import run

        return run(argv[0], argv[1:])
    if argv[0] in OWN:
        return _run_here(argv[0], argv[1:])
    sys.stderr.write(f"slurmfair: error: {_unknown(argv[0])}\n")
    return EXIT_USAGE


def usage() -> str:
    """Return the list of subcommands."""
    known = ASKED | {name: text for name, (_, _, text) in OWN.items()}
    lines = "".join(f"  {name:<12} {text}\n" for name, text in known.items())
    return f"usage: slurmfair COMMAND [OPTIONS]\n\n{lines}\nSee also sfprio, sfshare, and slurmfair COMMAND --help.\n{ELSEWHERE}\n"


def _run_here(command: str, argv: list[str]) -> int:
    from importlib import import_module

    module, function, _ = OWN[command]
    try:
        return int(getattr(import_module(module), function)(argv) or 0)
    except SlurmfairError as err:
        sys.stderr.write(f"slurmfair {command}: error: {err}\n")
        return EXIT_FAILED
    except BrokenPipeError:
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def _unknown(command: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(command, [*ASKED, *OWN], n=1)
    hint = f"did you mean {near[0]}?" if near else "slurmfair --help lists the commands"
    return f"{command!r} is no command; {hint}"


if __name__ == "__main__":
    sys.exit(main())
