"""Starts, stops and configures the daemons of a lab."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from . import conf, host
from .errors import LabError
from .inside import Inside
from .services import NODE_SERVICES, Service, listens, services, wait_until
from .state import write_state

GATE = Path("conf", "job_submit.lua")  # of the project
REPO = Path(__file__).resolve().parents[2]
BUSY_STATES = ("idle", "mixed", "allocated", "completing")
# Runs "$@" in its own session with output to the file $0, and prints its id.
DETACH = 'setsid "$@" </dev/null >>"$0" 2>&1 & echo $!'


class Daemons(Inside):
    """Knows each daemon by name; its id inside is kept in the folder of the lab."""

    def service(self, name: str) -> Service:
        """Return a daemon by name."""
        known = services(self.settings)
        if name not in known:
            raise LabError(name, "no such service", f"use one of: {', '.join(known)}")
        return known[name]

    def pid_file(self, name: str) -> Path:
        """Return where a daemon's id is kept."""
        return self.settings.dir / f"{name}.pid"

    def service_pid(self, name: str) -> int | None:
        """Return the id inside of a running daemon, None if it is down."""
        with suppress(FileNotFoundError):
            pid = int(self.pid_file(self.service(name).name).read_text())
            return pid if self.lives(pid) else None
        return None

    def service_states(self) -> dict[str, int | None]:
        """Return the id of each daemon, None if it is down."""
        return {name: self.service_pid(name) for name in services(self.settings)}

    def start_service(self, *names: str) -> None:
        """Start daemons, then wait until they are ready."""
        self.launch(*names)
        self.wait_ready(*names)

    def stop_service(self, name: str, sig: int = signal.SIGTERM, timeout: float = 60) -> None:
        """Signal a daemon by its id and wait until it has ended; one that is down is fine."""
        self.stop_services([name], sig, timeout)

    def restart_service(self, name: str, sig: int = signal.SIGTERM) -> None:
        """Stop a daemon and start it again."""
        self.stop_services([name], sig)
        self.start_service(name)

    def stop_services(self, names: Sequence[str], sig: int = signal.SIGTERM, timeout: float = 60) -> None:
        """Stop several daemons at a time; `timeout` in seconds."""
        pids = {name: pid for name in names if (pid := self.service_pid(name)) is not None}
        for pid in pids.values():
            self.kill(pid, sig)
        for name, pid in pids.items():
            if not wait_until(lambda pid=pid: not self.lives(pid), timeout, 0.02):  # type: ignore[misc]
                raise LabError(name, f"did not end within {timeout:.0f} s", "stop it with SIGKILL")

    def launch(self, *names: str) -> None:
        """Start daemons without waiting until they are ready."""
        for service in map(self.service, names):
            if self.service_pid(service.name) is None:
                self.prepare(service)
                pid = self.run(["sh", "-c", DETACH, service.log, *as_user(service)]).stdout
                self.pid_file(service.name).write_text(pid)

    def prepare(self, service: Service) -> None:
        """Make a daemon's folders and remove a socket left by one that was killed."""
        for folder, owner in service.folders:
            self.path(folder).mkdir(parents=True, exist_ok=True)
            os.chown(self.path(folder), *self.ids(owner))
        if service.socket:
            self.path(service.socket).unlink(missing_ok=True)

    def wait_ready(self, *names: str) -> None:
        """Wait until daemons answer."""
        for service in map(self.service, names):
            if not wait_until(lambda one=service: self.is_settled(one)):  # type: ignore[misc]
                raise LabError(service.name, "not ready in time", f"read {self.path(service.log)}")
            if self.service_pid(service.name) is None:
                log = host.last_lines(self.path(service.log).read_text(errors="replace"))
                raise LabError(service.name, f"ended at once: {log}", "check the lines you changed")

    def is_settled(self, service: Service) -> bool:
        """Return whether a daemon is ready, or has ended."""
        return self.is_ready(service) or self.service_pid(service.name) is None

    def is_ready(self, service: Service) -> bool:
        """Return whether a daemon has its socket or its port."""
        if service.socket:
            return self.path(service.socket).exists()
        tables = (Path(f"/proc/{self.space.init_pid}/net/{name}") for name in ("tcp", "tcp6"))
        return any(listens(table.read_text(), service.port or 0) for table in tables)

    def set_conf(self, changes: Mapping[str, str | None], restart: bool = False) -> None:
        """Change lines of slurm.conf (None removes one), then reconfigure or restart Slurm.

        A restart is of slurmctld and all nodes: what a change of nodes, GRES or plugins needs.
        """
        self.change(restart, conf={**self.settings.conf, **changes})

    def set_gate(self, on: bool) -> None:
        """Switch the submit gate (JobSubmitPlugins=lua) on or off."""
        self.change(True, gate=on)

    def change(self, restart: bool, **fields: object) -> None:
        """Apply changed settings."""
        self.settings = dataclasses.replace(self.settings, **fields)  # type: ignore[arg-type]
        write_state(self.settings, self.space)
        self.write_files()
        if restart:
            names = ("slurmctld", *NODE_SERVICES)
            self.stop_services(names)
            self.start_service(*names)
        else:
            self.run(["scontrol", "reconfigure"])
        self.wait_nodes(BUSY_STATES)

    def write_files(self) -> None:
        """Write everything under /etc."""
        for name, (text, owner, mode) in conf.files(self.settings).items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
            os.chown(path, *self.ids(owner))
        if self.settings.gate:
            self.write_gate()

    def write_gate(self) -> None:
        """Copy the project's submit gate."""
        source = REPO / GATE
        if not source.is_file():
            raise LabError(str(source), "there is no submit gate", "run the lab without the gate")
        self.path("/etc/slurm/job_submit.lua").write_bytes(source.read_bytes())

    def node_states(self) -> dict[str, str]:
        """Return the state of each node, as sinfo says it."""
        rows = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], check=False).stdout.split()
        return dict(zip(rows[::2], rows[1::2], strict=False))

    def wait_nodes(self, wanted: Sequence[str] = ("idle",), timeout: float = 60) -> None:
        """Wait until the state of every node is one of those wanted."""

        def good() -> bool:
            states = self.node_states()
            return set(states) == set(conf.NODES) and set(states.values()) <= set(wanted)

        if not wait_until(good, timeout, 0.2):
            raise LabError("nodes", str(self.node_states()), f"read {self.path(conf.LOGS)}")


def as_user(service: Service) -> list[str]:
    """Return a daemon's command line as its user."""
    if service.user == "root":
        return list(service.argv)
    groups = [f"--reuid={service.user}", f"--regid={service.user}", "--init-groups"]
    return ["setpriv", *groups, *service.argv]
