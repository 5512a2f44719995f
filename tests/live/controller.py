"""What slurmctld's own log tells: who updated which job, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

UPDATE = re.compile(
    r"\[(?P<at>[^\]]+)\] _slurm_rpc_update_job: (?:complete )?JobId=(?P<job>\S+) uid=(?P<uid>\d+)"
)
RECORD = re.compile(r"(?:.*\()?(\d+)")  # "7", "7_*", "7+1(8)", "7_3(9)": the id of the record


@dataclass(frozen=True, slots=True)
class Update:
    """One update of a job, refused ones too; `at_s` is by slurmctld's clock, to the millisecond."""

    at_s: float
    job_id: int
    uid: int


@dataclass(slots=True)
class ControllerLog:
    """slurmctld's log from a mark on."""

    path: Path
    mark: int = 0

    def clear(self) -> None:
        """Forget what was logged so far."""
        self.mark = self.path.stat().st_size

    def updates(self) -> list[Update]:
        """Return the updates in their order."""
        with self.path.open("rb") as file:
            file.seek(self.mark)
            found = map(UPDATE.match, file.read().decode(errors="replace").splitlines())
        return [_update(line) for line in found if line]


def _update(line: re.Match[str]) -> Update:
    record = RECORD.match(line["job"])
    assert record, line[0]
    return Update(datetime.fromisoformat(line["at"]).timestamp(), int(record[1]), int(line["uid"]))
