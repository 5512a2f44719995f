"""`python3 -m tests.lab up | down | status | exec | shell`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .errors import LabError
from .lab import Lab
from .settings import from_environment
from .space import ENDING_SIGNALS


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = parser().parse_args(argv)
    try:
        return int(args.command(args))
    except LabError as err:
        print(f"lab: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the grammar of the command line."""
    top = argparse.ArgumentParser(prog="python3 -m tests.lab", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", help="folder of the lab (SLURMFAIR_LAB_DIR)")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    add_up(commands.add_parser("up", parents=[common], help="start a lab"))
    down = commands.add_parser("down", parents=[common], help="end a lab and remove its folder")
    down.set_defaults(command=run_down)
    status = commands.add_parser("status", parents=[common], help="show a lab")
    status.add_argument("--json", action="store_true")
    status.set_defaults(command=run_status)
    execute = commands.add_parser("exec", parents=[common], help="run a command in a lab")
    execute.add_argument("--user", default="root")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD...")
    execute.set_defaults(command=run_exec)
    shell = commands.add_parser("shell", parents=[common], help="open a shell in a lab")
    shell.add_argument("--user", default="root")
    shell.set_defaults(command=run_exec, argv=["bash", "-i"])
    install = commands.add_parser("install", parents=[common], help="install this project in a lab")
    install.add_argument("source", nargs="?", default=".", help="working tree (default: here)")
    install.set_defaults(command=run_install)
    return top


def add_up(up: argparse.ArgumentParser) -> None:
    """Add the options of `up`."""
    up.add_argument("--name", help="name of the cluster (SLURMFAIR_LAB_NAME)")
    up.add_argument("--cache", help="folder of cached roots (SLURMFAIR_LAB_CACHE)")
    up.add_argument("--hostname", help="host name inside (SLURMFAIR_LAB_HOSTNAME)")
    up.add_argument("--base-port", type=int, help="first port (SLURMFAIR_LAB_PORT)")
    up.add_argument("--host-network", action="store_true", help="share the host's network")
    up.add_argument("--gate", action="store_true", help="switch conf/job_submit.lua on")
    up.add_argument("--shards", type=int, help="give each GPU node this many shards")
    up.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    up.add_argument("--foreground", action="store_true", help="stay, and end the lab at Ctrl-C")
    up.set_defaults(command=run_up)


def run_up(args: argparse.Namespace) -> int:
    """Start a lab; it stays after this command unless in the foreground."""
    clean_up_at_signals()
    settings = from_environment(
        dir=args.dir,
        cache=args.cache,
        name=args.name,
        hostname=args.hostname,
        base_port=args.base_port,
        own_network=not args.host_network,
        gate=args.gate,
        shards=args.shards,
        conf=dict(conf_line(text) for text in args.conf),
    )
    lab = Lab(settings, quiet=False)
    lab.up(keep=not args.foreground)
    while args.foreground:
        try:
            signal.pause()
        except KeyboardInterrupt:
            lab.down()
            return 0
    return 0


def conf_line(text: str) -> tuple[str, str | None]:
    """Return key and value of a line of slurm.conf; nothing after `=` removes the line."""
    key, found, value = text.partition("=")
    if not found or not key:
        raise LabError(f"--conf {text}", "not KEY=VALUE", "write e.g. --conf PriorityWeightQOS=1000")
    if key.lower() in ("nodename", "partitionname"):
        name, _, value = value.partition(" ")
        key = f"{key}={name}"
    return key, value or None


def clean_up_at_signals() -> None:
    """Turn the signals that end a command into an exception, but those that nohup and sh ignore."""
    for sig in ENDING_SIGNALS:
        if signal.getsignal(sig) is not signal.SIG_IGN:
            signal.signal(sig, interrupt)


def interrupt(*_: object) -> NoReturn:
    """Raise the exception that cleans up, once."""
    for sig in ENDING_SIGNALS:
        signal.signal(sig, signal.SIG_IGN)
    raise KeyboardInterrupt


def run_down(args: argparse.Namespace) -> int:
    """End a lab."""
    Lab(from_environment(dir=args.dir)).down()
    return 0


def run_status(args: argparse.Namespace) -> int:
    """Show daemons and nodes; exit status 3 when no lab runs."""
    try:
        lab = Lab.attach(args.dir)
    except LabError as err:
        print(json.dumps({"running": False}) if args.json else f"lab: {err}")
        return 3
    state = {
        "running": True,
        "dir": str(lab.settings.dir),
        "name": lab.settings.name,
        "init_pid": lab.space.init_pid,
        "services": lab.service_states(),
        "nodes": lab.node_states(),
    }
    print(json.dumps(state, indent=1) if args.json else table(state))
    return 0


def table(state: dict[str, object]) -> str:
    """Return the state of a lab as lines."""
    head = f"{state['name']} in {state['dir']}, process {state['init_pid']}"
    services, nodes = state["services"], state["nodes"]
    assert isinstance(services, dict) and isinstance(nodes, dict)
    rows = [f"  {name:14} {pid or 'down'}" for name, pid in services.items()]
    rows += [f"  {name:14} {nodes[name]}" for name in nodes]
    return "\n".join([head, *rows])


def run_exec(args: argparse.Namespace) -> int:
    """Run a command in a lab and return its exit status, 128 + N after signal N."""
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise LabError("exec", "no command given", "write: exec --user ann -- squeue")
    env = {"TERM": os.environ.get("TERM", "dumb")}
    process = Lab.attach(args.dir).popen(argv, user=args.user, env=env)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda number, _: process.send_signal(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    status = process.wait()
    return status if status >= 0 else 128 - status


def run_install(args: argparse.Namespace) -> int:
    """Install this project's working tree in a lab."""
    Lab.attach(args.dir, quiet=False).install_project(args.source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
