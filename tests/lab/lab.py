"""A real Slurm of one's own: up, down, commands inside it, its daemons and its jobs."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from . import accounts, conf, host, project, root, space
from .errors import LabError
from .services import Service, listens, services, wait_until
from .settings import Settings, from_environment, from_json
from .space import LabProcess, Space
from .stages import Stages

STATE_FILE = "lab.json"
GATE = Path("conf", "job_submit.lua")  # of the project
REPO = Path(__file__).resolve().parents[2]
SMOKE = """
import pyslurm
nodes, jobs = pyslurm.Nodes.load(), pyslurm.Jobs.load()
assert len(nodes) == {nodes} and {job} in jobs, (nodes, jobs)
job = jobs[{job}]
job.modify(pyslurm.JobSubmitDescription(site_factor=100))
assert pyslurm.Job.load({job}).priority == 100
"""


class Lab:
    """One Slurm cluster in its own namespaces.

    `with Lab(dir=...) as lab:` ends it with the block, and if this process dies.
    """

    def __init__(self, settings: Settings | None = None, *, quiet: bool = True, **given: Any):
        self.settings = settings or from_environment(**given)
        self.stages = Stages(quiet)
        self._space: Space | None = None

    @classmethod
    def attach(cls, dir: str | Path | None = None, quiet: bool = True) -> Self:
        """Return the running lab of a folder."""
        folder = from_environment(dir=dir).dir
        if (state := read_state(folder)) is None:
            raise LabError(str(folder), "no lab runs here", "start one: python3 -m tests.lab up")
        lab = cls(from_json(state["settings"]), quiet=quiet)
        lab._space = space_of(state)
        if not lab.space.alive:
            raise LabError(str(folder), "the lab of this folder has ended", "run down, then up")
        return lab

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, at: TracebackType | None
    ) -> None:
        self.down()

    # Up and down

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

    def up(self, keep: bool = False) -> Self:
        """Bring the lab up: all nodes idle, one job run. With `keep` it outlives this process."""
        host.check()
        self.refuse_folder_in_use()
        lower = root.ready_root(self.settings.cache, self.stages)
        try:
            self.settings.dir.mkdir(parents=True, mode=0o755)
            self.boot(lower)
            self.verify(lower)
            if keep:
                self.space.keep()
        except BaseException:
            self.down()
            raise
        self.stages.total(f"{self.settings.name} is up")
        return self

    def down(self) -> None:
        """End the lab, if there is one, and remove its folder."""
        folder = self.settings.dir
        if self._space is None and (state := read_state(folder)):
            self._space = space_of(state)
        if self._space is not None:
            self._space.stop()
            self._space = None
        space.remove(folder)

    def refuse_folder_in_use(self) -> None:
        """Raise if a lab runs in the folder or if it holds something else; clear a dead lab."""
        folder = self.settings.dir
        state = read_state(folder)
        if state and space_of(state).alive:
            raise LabError(str(folder), "a lab runs here already", "run down, or choose --dir")
        if state:
            space.remove(folder)
        elif folder.exists() and any(folder.iterdir()):
            raise LabError(str(folder), "the folder holds something else", "choose another --dir")
        elif folder.exists():
            folder.rmdir()

    def boot(self, lower: Path) -> None:
        """Start the namespaces and all daemons."""
        self._space = space.start(self.settings, lower)
        self.write_state()
        self.write_files()
        accounts.add_unix_users(self.settings, self.path("/etc"), self.path("/home"))
        self.stages.done("namespaces, root mounted")
        self.launch("munged", "mariadbd")
        self.wait_ready("munged", "mariadbd")
        self.run(["mariadb"], input=DATABASE_USER)
        self.stages.done("munge and mariadb ready")
        self.start_service("slurmdbd")
        self.stages.done("slurmdbd ready")
        self.run(["sacctmgr", "-i", "-Q"], input=accounts.database_script(self.settings))
        self.stages.done("accounts and QOS")
        self.start_service("slurmctld")
        self.stages.done("slurmctld ready")
        nodes = [f"slurmd:{node}" for node in conf.NODES]
        self.launch(*nodes)
        self.wait_ready(*nodes)
        self.wait_nodes_idle()
        self.stages.done("nodes idle")

    def verify(self, lower: Path) -> None:
        """Run one job with a GPU; on a new root also ask pyslurm for its view."""
        user = self.settings.people[0]
        done = self.run(["srun", "--immediate=20", "--gpus=h100:1", "id", "-un"], user=user)
        if done.stdout.strip() != user:
            raise LabError("first job", repr(done.stdout), f"read {conf.LOGS} in the lab")
        self.stages.done("first job ran")
        passed = lower.with_suffix(".passed")
        if not passed.exists():
            self.smoke()
            passed.write_text(f"Slurm {root.slurm_version(lower)}, pyslurm {root.PYSLURM}\n")
            self.stages.done("pyslurm reads and writes")

    def smoke(self) -> None:
        """Load jobs and nodes with pyslurm and write one site factor."""
        job = self.sbatch("--begin=now+1hour", "--wrap=true")
        self.run(["python3", "-c", SMOKE.format(nodes=len(conf.NODES), job=job)])
        self.run(["scancel", str(job)])

    def write_state(self) -> None:
        """Record who holds the lab, for commands to come."""
        state = {
            "settings": self.settings.as_json(),
            "init_pid": self.space.init_pid,
            "init_ticks": self.space.init_ticks,
        }
        path = self.settings.dir / STATE_FILE
        path.with_suffix(".new").write_text(json.dumps(state, indent=1))
        path.with_suffix(".new").rename(path)

    def write_files(self) -> None:
        """Write everything under /etc."""
        for name, (text, owner, mode) in conf.files(self.settings).items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
            if owner != "root":
                os.chown(path, *self.ids(owner))
        if self.settings.gate:
            self.write_gate()

    def write_gate(self) -> None:
        """Copy the project's submit gate."""
        source = REPO / GATE
        if not source.is_file():
            raise LabError(str(source), "there is no submit gate", "run the lab without --gate")
        self.path("/etc/slurm/job_submit.lua").write_bytes(source.read_bytes())

    def ids(self, user: str) -> tuple[int, int]:
        """Return uid and gid of a user inside."""
        for row in self.path("/etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = row.split(":")
            if name == user:
                return int(uid), int(gid)
        raise LabError(user, "no such user in the lab", f"use one of {self.settings.unix_users}")

    # Commands inside

    def path(self, inside: str | Path) -> Path:
        """Return the path on the host of a file inside."""
        return self.space.path(inside)

    def popen(
        self,
        argv: Sequence[str],
        user: str = "root",
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        network: bool = True,
        **options: Any,
    ) -> LabProcess:
        """Start a command inside as a user; its signals reach the command itself."""
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
            raise LabError(
                f"{shlex.join(argv)} (as {user})",
                f"exit {done.returncode}: {host.last_lines((out or '') + (err or ''))}",
                f"look into {conf.LOGS} with: python3 -m tests.lab --dir {self.settings.dir} shell",
            )
        return done

    def kill(self, lab_pid: int, sig: int = signal.SIGTERM) -> None:
        """Send a signal to a process by its id inside the lab; one that has ended is fine."""
        self.run(["kill", f"-{int(sig)}", str(lab_pid)], check=False)

    def lives(self, lab_pid: int) -> bool:
        """Return whether a process (its id inside) runs."""
        with suppress(FileNotFoundError, ProcessLookupError):
            text = self.path(f"/proc/{lab_pid}/stat").read_text()
            return text.rpartition(")")[2].split()[0] not in "ZX"
        return False

    # Daemons

    def start_service(self, name: str) -> None:
        """Start a daemon and wait until it is ready."""
        self.launch(name)
        self.wait_ready(name)

    def stop_service(self, name: str, sig: int = signal.SIGTERM, timeout: float = 60) -> None:
        """Stop a daemon by its id and wait until it has ended; one that is down is fine."""
        pid = self.service_pid(name)
        if pid is None:
            return
        self.kill(pid, sig)
        if not wait_until(lambda: not self.lives(pid), timeout, 0.02):
            raise LabError(name, f"did not end within {timeout:.0f} s", "use SIGKILL")
        self.pid_file(name).unlink(missing_ok=True)

    def restart_service(self, name: str, sig: int = signal.SIGTERM) -> None:
        """Stop a daemon and start it again."""
        self.stop_service(name, sig)
        self.start_service(name)

    def service_pid(self, name: str) -> int | None:
        """Return the id inside of a running daemon."""
        self.service(name)
        with suppress(FileNotFoundError):
            pid = int(self.pid_file(name).read_text())
            return pid if self.lives(pid) else None
        return None

    def pid_file(self, name: str) -> Path:
        """Return where a daemon's id is kept."""
        return self.settings.dir / f"{name}.pid"

    def service(self, name: str) -> Service:
        """Return a daemon by name."""
        known = services(self.settings)
        if name not in known:
            raise LabError(name, "no such service", f"use one of: {', '.join(known)}")
        return known[name]

    def launch(self, *names: str) -> None:
        """Start daemons without waiting until they are ready."""
        wanted = [self.service(name) for name in names if self.service_pid(name) is None]
        for service in wanted:
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
            if not wait_until(lambda s=service: self.is_ready(s) or self.service_pid(s.name) is None):
                raise LabError(service.name, "not ready in time", f"read {service.log} in the lab")
            if self.service_pid(service.name) is None:
                log = host.last_lines(self.path(service.log).read_text(errors="replace"))
                raise LabError(service.name, f"ended at once: {log}", f"read {service.log}")

    def is_ready(self, service: Service) -> bool:
        """Return whether a daemon has its socket or its port."""
        if service.socket:
            return self.path(service.socket).exists()
        tables = (f"/proc/{self.space.init_pid}/net/{name}" for name in ("tcp", "tcp6"))
        return any(listens(Path(table).read_text(), service.port or 0) for table in tables)

    def service_states(self) -> dict[str, int | None]:
        """Return the id of each daemon, None if it is down."""
        return {name: self.service_pid(name) for name in services(self.settings)}

    # Configuration

    def set_conf(self, changes: Mapping[str, str | None], restart: bool = False) -> None:
        """Change lines of slurm.conf, None removing one; reconfigure or restart slurmctld."""
        values = {**self.settings.conf, **changes}
        self.change(restart, conf=values)

    def set_gate(self, on: bool) -> None:
        """Switch the submit gate (JobSubmitPlugins=lua) on or off."""
        self.change(True, gate=on)

    def change(self, restart: bool, **fields: Any) -> None:
        """Apply changed settings."""
        self.settings = dataclasses.replace(self.settings, **fields)
        self.write_state()
        self.write_files()
        if restart:
            self.restart_service("slurmctld")
        else:
            self.run(["scontrol", "reconfigure"])
        self.wait_nodes_up()

    # The project

    def install_project(self, source_dir: str | Path = REPO) -> bool:
        """Build and install a working tree in /opt/venv; return False if it was there already."""
        changed = project.install_project(self, Path(source_dir))
        self.stages.done("project installed" if changed else "project unchanged")
        return changed

    # Nodes and jobs

    def node_states(self) -> dict[str, str]:
        """Return the state of each node, as sinfo says it."""
        rows = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], check=False).stdout.split()
        return dict(zip(rows[::2], rows[1::2], strict=False))

    def wait_nodes_idle(self, timeout: float = 60) -> None:
        """Wait until all nodes are idle."""
        self.wait_nodes(("idle",), timeout)

    def wait_nodes_up(self, timeout: float = 60) -> None:
        """Wait until all nodes are idle or busy."""
        self.wait_nodes(("idle", "mixed", "allocated", "completing"), timeout)

    def wait_nodes(self, wanted: Sequence[str], timeout: float) -> None:
        """Wait until the state of every node is one of those wanted."""

        def good() -> bool:
            states = self.node_states()
            return set(states) == set(conf.NODES) and set(states.values()) <= set(wanted)

        if not wait_until(good, timeout, 0.2):
            raise LabError("nodes", str(self.node_states()), f"read {conf.LOGS}/slurmd-*.log")

    def sbatch(self, *args: str, user: str | None = None, script: str | None = None) -> int:
        """Submit a job and return its id; without `--wrap` or a script it sleeps 10 minutes."""
        argv = ["sbatch", "--parsable", "--output=/dev/null", *args]
        if script is None and not any(arg.startswith("--wrap") for arg in args):
            argv += ["--wrap", "exec sleep 600"]
        done = self.run(argv, user=user or self.settings.people[0], input=script)
        return int(done.stdout.strip().partition(";")[0])

    def submit_many(self, rows: Iterable[Sequence[str]], user: str | None = None) -> list[int]:
        """Submit jobs with one command, each row the arguments of one sbatch; return their ids."""
        command = shlex.join(["sbatch", "--parsable", "--output=/dev/null"])
        lines = [f"{command} {shlex.join(with_payload(row))}" for row in rows]
        done = self.run(
            ["sh", "-e"], user=user or self.settings.people[0], input="\n".join(lines), timeout=600
        )
        return [int(row.partition(";")[0]) for row in done.stdout.split()]

    def squeue(self, *args: str) -> list[dict[str, Any]]:
        """Return the jobs as squeue's JSON has them."""
        done = self.run(["squeue", "--json", *args])
        jobs: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
        return jobs

    def show_job(self, job_id: int | str) -> dict[str, str]:
        """Return all fields of a job as `scontrol show job` has them."""
        text = self.run(["scontrol", "show", "job", "-o", str(job_id)]).stdout.splitlines()[0]
        return parse_fields(text)

    def sacct(self, *args: str) -> list[dict[str, str]]:
        """Return rows of sacct, jobs only, with its fields as keys; newest run of each job only."""
        argv = ["sacct", "-a", "-X", "--parsable2", *args]
        if not any(arg.startswith(("-o", "--format")) for arg in args):
            argv += ["--format=ALL"]
        lines = self.run(argv).stdout.splitlines()
        names = lines[0].split("|")
        return [dict(zip(names, line.split("|"), strict=False)) for line in lines[1:]]

    def sdiag(self) -> dict[str, Any]:
        """Return Slurm's own statistics, with `by_type` and `by_user`: calls by name."""
        stats: dict[str, Any] = json.loads(self.run(["sdiag", "--json"]).stdout)["statistics"]
        stats["by_type"] = {row["message_type"]: row["count"] for row in stats["rpcs_by_message_type"]}
        stats["by_user"] = {row["user"]: row["count"] for row in stats["rpcs_by_user"]}
        return stats

    def cancel_all(self, timeout: float = 60) -> None:
        """Cancel every job and wait until the queue is empty and the nodes are idle."""
        self.run(["scancel", "--state=PENDING", "--full", "--quiet"], check=False)
        self.run(["sh", "-c", "squeue -h -o %A -a | sort -u | xargs -r scancel --quiet"], check=False)

        def empty() -> bool:
            return self.run(["squeue", "-h", "-a", "-o", "%A"]).stdout == ""

        if not wait_until(empty, timeout, 0.1):
            raise LabError("queue", "jobs do not end", f"read {conf.LOGS}/slurmctld.log")
        self.wait_nodes_idle(timeout)


DATABASE_USER = f"""
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY '{conf.DATABASE_PASSWORD}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""
# Runs "$@" in its own session with output to the file $0, and prints its id.
DETACH = 'setsid "$@" </dev/null >>"$0" 2>&1 & echo $!'


def as_user(service: Service) -> list[str]:
    """Return a daemon's command line as its user."""
    if service.user == "root":
        return list(service.argv)
    groups = [f"--reuid={service.user}", f"--regid={service.user}", "--init-groups"]
    return ["setpriv", *groups, *service.argv]


def with_payload(args: Sequence[str]) -> list[str]:
    """Return arguments of sbatch with something to run."""
    given = any(arg.startswith("--wrap") for arg in args)
    return list(args) if given else [*args, "--wrap", "exec sleep 600"]


def parse_fields(line: str) -> dict[str, str]:
    """Return the Key=Value pairs of one line of scontrol; a value may hold spaces and `=`."""
    fields: dict[str, str] = {}
    last = ""
    for word in line.split(" "):
        key, found, value = word.partition("=")
        if found and key.replace("/", "").replace(":", "").replace("_", "").isalnum():
            fields[key], last = value, key
        elif last:
            fields[last] += f" {word}"
    return fields


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what a lab wrote into its folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        state: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
        return state
    return None


def space_of(state: Mapping[str, Any]) -> Space:
    """Return the namespaces of a lab by what it wrote."""
    return Space(state["init_pid"], state["init_ticks"], state["settings"]["own_network"])
