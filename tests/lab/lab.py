"""A real Slurm of one's own: up, down, and all that can be done inside."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from . import accounts, conf, host, project, root, space
from .daemons import REPO
from .errors import LabError
from .jobs import Jobs
from .services import NODE_SERVICES
from .settings import from_environment, from_json
from .state import STATE_FILE, read_state, space_of, write_state

DATABASE_USER = f"""
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY '{conf.DATABASE_PASSWORD}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""
SMOKE = """
import pyslurm
nodes, jobs = pyslurm.Nodes.load(), pyslurm.Jobs.load()
assert len(nodes) == {nodes} and {job} in jobs, (nodes, jobs)
jobs[{job}].modify(pyslurm.JobSubmitDescription(site_factor=100))
assert pyslurm.Job.load({job}).priority == 100
"""


class Lab(Jobs):
    """One Slurm cluster in its own namespaces.

    `with Lab(dir=...) as lab:` ends it with the block, and if this process dies.
    """

    @classmethod
    def attach(cls, dir: str | Path | None = None, quiet: bool = True) -> Self:
        """Return the running lab of a folder."""
        folder = from_environment(dir=dir).dir
        if (state := read_state(folder)) is None:
            raise LabError(str(folder), "no lab runs here", "start one: python3 -m tests.lab up")
        lab = cls(from_json(state["settings"]), quiet=quiet)
        lab._space = space_of(state)
        if not lab.running:
            raise LabError(str(folder), "the lab of this folder has ended", "start it again: up")
        return lab

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, at: TracebackType | None
    ) -> None:
        self.down()

    def up(self, keep: bool = False) -> Self:
        """Bring the lab up: all nodes idle, one job run. With `keep` it outlives this process."""
        host.check()
        self.clear_folder()
        lower = root.ready_root(self.settings.cache, self.stages)
        owned = False
        try:
            with space.held_signals():
                owned = self.claim_folder()
            self.boot(lower)
            self.verify(lower)
            if keep:
                self.space.keep()
        except BaseException:
            if owned:
                self.down()
            raise
        self.stages.total(f"{self.settings.name} is up")
        return self

    def down(self) -> None:
        """End the lab, if there is one, and remove its folder."""
        state = read_state(self.settings.dir)
        if self._space is None and state:
            self._space = space_of(state)
        if self._space is not None:
            self._space.stop()
            self._space = None
        if state:
            host.remove(self.settings.dir, last=STATE_FILE)
        else:
            self.refuse_foreign_folder()

    def claim_folder(self) -> bool:
        """Make the folder of this lab; it must not be there."""
        try:
            self.settings.dir.mkdir(parents=True, mode=0o755)
        except FileExistsError as err:
            raise LabError(str(self.settings.dir), "taken meanwhile", "choose another --dir") from err
        write_state(self.settings, None)
        return True

    def clear_folder(self) -> None:
        """Remove what a dead lab left in the folder; raise if it holds anything else."""
        folder = self.settings.dir
        state = read_state(folder)
        if state and space_of(state).alive:
            raise LabError(str(folder), "a lab runs here already", "run down, or choose --dir")
        if state:
            host.remove(folder, last=STATE_FILE)
        else:
            self.refuse_foreign_folder()

    def refuse_foreign_folder(self) -> None:
        """Raise if the folder holds something that is no lab; an empty one is removed."""
        folder = self.settings.dir
        if folder.exists() and any(folder.iterdir()):
            raise LabError(str(folder), "the folder holds something else", "choose another --dir")
        if folder.exists():
            folder.rmdir()

    def boot(self, lower: Path) -> None:
        """Start the namespaces and all daemons."""
        self._space = space.start(self.settings, lower)
        write_state(self.settings, self._space)
        self.write_files()
        accounts.add_unix_users(self.settings, self.path("/etc"), self.path("/home"))
        self.stages.done("namespaces, root mounted")
        self.start_service("munged", "mariadbd")
        self.run(["mariadb"], input=DATABASE_USER)
        self.stages.done("munge and mariadb ready")
        self.start_service("slurmdbd")
        self.stages.done("slurmdbd ready")
        self.run(["sacctmgr", "-i", "-Q"], input=accounts.database_script(self.settings))
        self.stages.done("accounts and QOS")
        self.start_service("slurmctld")
        self.stages.done("slurmctld ready")
        self.start_service(*NODE_SERVICES)
        self.wait_nodes()
        self.stages.done("nodes idle")

    def verify(self, lower: Path) -> None:
        """Run one job with a GPU; on a new root also ask pyslurm for its view."""
        user = self.settings.people[0]
        done = self.run(["srun", "--immediate=20", "--gpus=1", "id", "-un"], user=user)
        if done.stdout.strip() != user:
            raise LabError("first job", repr(done.stdout), f"read {self.path(conf.LOGS)}")
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

    def install_project(self, source_dir: str | Path = REPO) -> bool:
        """Build and install a working tree in /opt/venv; return False if it was there already."""
        changed = project.install_project(self, Path(source_dir))
        self.stages.done("project installed" if changed else "project unchanged")
        return changed
