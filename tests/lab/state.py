"""The file in a lab's folder that says who holds the lab."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .settings import Settings
from .space import Space

STATE_FILE = "lab.json"


def write_state(settings: Settings, space: Space | None) -> None:
    """Record settings and namespaces; without namespaces the lab is only being made."""
    state = {
        "settings": settings.as_json(),
        "init_pid": space.init_pid if space else 0,
        "init_ticks": space.init_ticks if space else 0,
    }
    path = settings.dir / STATE_FILE
    path.with_suffix(".new").write_text(json.dumps(state, indent=1))
    path.with_suffix(".new").rename(path)


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what a lab wrote into its folder, None if the folder holds no lab."""
    with suppress(FileNotFoundError, NotADirectoryError):
        state: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
        return state
    return None


def space_of(state: Mapping[str, Any]) -> Space:
    """Return the namespaces of a lab by what it wrote."""
    return Space(state["init_pid"], state["init_ticks"], state["settings"]["own_network"])
