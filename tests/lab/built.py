"""Compiled parts of the project, kept between labs: compiling them takes most of an install."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import root

COMPILED = {".c", ".o", ".so"}
SOURCES = {".pyx", ".pxd", ".pxi", ".c", ".h"}
BUILD_FILES = {"setup.py", "pyproject.toml"}
LONG_AGO_S = 946684800.0  # older than anything compiled, so that nothing looks changed
KEPT = 12


def folder(cache: Path, files: Mapping[str, bytes]) -> Path:
    """Return where the parts compiled from these sources are kept."""
    total = hashlib.sha256(root.key().encode())
    for name, content in sorted(files.items()):
        if Path(name).suffix in SOURCES or name in BUILD_FILES:
            total.update(f"{name}\0{len(content)}\0".encode() + content)
    return cache / "built" / total.hexdigest()[:16]


def restore(kept: Path, files: Mapping[str, bytes], target: Path) -> None:
    """Put compiled parts into a fresh copy of their sources."""
    if kept.is_dir():
        for name in files:
            os.utime(target / name, (LONG_AGO_S, LONG_AGO_S))
        shutil.copytree(kept, target, dirs_exist_ok=True)
        os.utime(kept)


def save(kept: Path, files: Mapping[str, bytes], target: Path) -> None:
    """Keep the compiled parts, in one step, and forget the oldest."""
    if kept.is_dir():
        return
    fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
    for path in compiled_parts(files, target):
        place = fresh / path.relative_to(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    try:
        if fresh.is_dir():
            fresh.rename(kept)
    except OSError:  # another lab was faster
        shutil.rmtree(fresh)
    for old in sorted(kept.parent.glob("*"), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def compiled_parts(files: Mapping[str, bytes], target: Path) -> Iterator[Path]:
    """Yield what was compiled, without Python modules: these belong to one working tree."""
    for path in target.rglob("*"):
        if path.suffix in COMPILED and str(path.relative_to(target)) not in files and path.is_file():
            yield path
