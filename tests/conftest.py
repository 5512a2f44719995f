"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no fault of the code; the same examples every time, so that a red run can be repeated.
settings.register_profile(
    "project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("project")


# A suite that a script runs in the background ignores SIGINT, and so would all that its tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases-dir",
        type=Path,
        help="folder with *_cases.jsonl files for tests/conformance (default: the copies beside the tests)",
    )


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of the founding data: $SLURMFAIR_SHARED/data, or shared/data beside the checkout."""
    checkout = Path(__file__).resolve().parents[1]
    named = os.environ.get("SLURMFAIR_SHARED")
    folder = (Path(named) if named else checkout.parent / "shared") / "data"
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}: set SLURMFAIR_SHARED to the folder that holds data/")
    return folder
