"""The units for systemd, as systemd itself judges them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CONF = Path(__file__).resolve().parents[1] / "conf"
UNITS = sorted([*CONF.glob("*.service"), *CONF.glob("*.timer")])
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here: apt-get install systemd"
)


def test_there_are_units_for_the_daemon_its_guard_and_its_reports() -> None:
    assert {unit.name for unit in UNITS} == {
        "slurmfaird.service", "slurmfair-guard.service", "slurmfair-guard.timer", "slurmfair-report.service",
    }  # fmt: skip


@needs_systemd
def test_systemd_has_nothing_to_say_about_our_units(tmp_path: Path) -> None:
    for unit in UNITS:  # our commands are not installed where the tests run
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
