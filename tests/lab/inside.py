"""Commands and files inside a lab."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import conf, host, root
from .errors import LabError
from .settings import Settings, from_environment
from .space import LabProcess, Space
from .stages import Stages


class Inside:
    """Reaches into a lab that runs: its files, its commands, its processes."""

    def __init__(self, settings: Settings | None = None, *, quiet: bool = True, **given: Any):
        self.settings = settings or from_environment(**given)
        self.stages = Stages(quiet)
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """The namespaces of the running lab."""
        if self._space is None:
            raise LabError(str(self.settings.dir), "the lab is not up", "call up() first")
        return self._space

    @property
    def running(self) -> bool:
        """Whether the lab is up."""
        return self._space is not None and self._space.alive

    def path(self, inside: str | Path) -> Path:
        """Return the path on the host of a file inside; absolute links inside would mislead it."""
        return self.space.path(inside)

    def ids(self, user: str) -> tuple[int, int]:
        """Return uid and gid of a user inside."""
        for row in self.path("/etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = row.split(":")
            if name == user:
                return int(uid), int(gid)
        raise LabError(user, "no such user in the lab", f"use one of {self.settings.unix_users}")

    def popen(
        self,
        argv: Sequence[str],
        user: str = "root",
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        network: bool = True,
        **options: Any,
    ) -> LabProcess:
        """Start a command inside as a user; its signals reach the command itself.

        `env` comes on top of a clean environment. With `network` false it keeps the host's network.
        """
        home = "/root" if user == "root" else f"/home/{user}"
        workdir = workdir or (home if self.path(home).is_dir() else "/")
        outer = self.space.enter(argv, user, workdir, network)
        names = {"USER": user, "LOGNAME": user, "HOME": home}
        settings = {**root.clean_env(), **names, **(env or {})}
        return LabProcess(outer, env=settings, text=True, **options)

    def run(
        self,
        argv: Sequence[str],
        user: str = "root",
        input: str | None = None,
        timeout: float = 60,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside as a user and return its output; `timeout` in seconds."""
        source = subprocess.DEVNULL if input is None else subprocess.PIPE
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        with self.popen(argv, user, env, **pipes) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(list(argv), process.returncode, out, err)
        if check and done.returncode != 0:
            raise self.failure(done, user)
        return done

    def failure(self, done: subprocess.CompletedProcess[str], user: str) -> LabError:
        """Return the error of a command that failed."""
        return LabError(
            f"{shlex.join(done.args)} (as {user})",
            f"exit {done.returncode}: {host.last_lines((done.stdout or '') + (done.stderr or ''))}",
            f"look into {self.path(conf.LOGS)} while the lab is up",
        )

    def kill(self, lab_pid: int, sig: int = signal.SIGTERM) -> None:
        """Send a signal to a process by its id inside the lab; one that has ended is fine."""
        self.run(["kill", f"-{int(sig)}", str(lab_pid)], check=False)

    def lives(self, lab_pid: int) -> bool:
        """Return whether a process (its id inside) runs."""
        with suppress(FileNotFoundError, ProcessLookupError):
            text = self.path(f"/proc/{lab_pid}/stat").read_text()
            return text.rpartition(")")[2].split()[0] not in "ZX"
        return False
