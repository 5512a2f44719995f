"""Where slurmfair keeps what: one state folder, one run-time folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CONFIG = Path("/etc/slurmfair/policy.yaml")


@dataclass(frozen=True, slots=True)
class Paths:
    state_dir: Path  # survives a reboot
    run_dir: Path  # does not

    @property
    def database(self) -> Path:
        return self.state_dir / "state.db"

    @property
    def lock(self) -> Path:
        return self.state_dir / "lock"

    @property
    def view(self) -> Path:
        return self.state_dir / "view.npz"

    @property
    def record(self) -> Path:
        """Samples of shares over time, see record.py."""
        return self.state_dir / "shares.db"

    @property
    def socket(self) -> Path:
        return self.run_dir / "socket"

    @property
    def listen(self) -> Path:
        """Where the reporter listens besides its socket: written by the daemon, see address.py."""
        return self.state_dir / "listen"

    @property
    def heartbeat(self) -> Path:
        """Read by conf/job_submit.lua: the time of the last healthy cycle and the partitions it managed."""
        return self.run_dir / "heartbeat"


def default_paths() -> Paths:
    """Return the folders that systemd gives us ($STATE_DIRECTORY, $RUNTIME_DIRECTORY), else the usual ones."""
    return Paths(
        Path(os.environ.get("STATE_DIRECTORY") or "/var/lib/slurmfair"),
        Path(os.environ.get("RUNTIME_DIRECTORY") or "/run/slurmfair"),
    )
