"""Golden texts: `SLURMFAIR_GOLDEN=write pytest` writes them anew; look at the difference before you commit it."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Compare a text with the golden file of this name."""
    path = HERE / name
    if os.environ.get("SLURMFAIR_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden file {name}; write it with SLURMFAIR_GOLDEN=write"
    assert text == path.read_text(encoding="utf-8")


def text(name: str) -> str:
    """Return the golden file of this name."""
    return (HERE / name).read_text(encoding="utf-8")
