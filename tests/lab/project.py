"""Installs a working tree of the project into a lab, built there against its Slurm."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import built, host, root
from .errors import LabError

if TYPE_CHECKING:
    from .lab import Lab

SOURCES = "/opt/slurmfair-src"
EXTRAS = ("slurm", "cron", "top")  # optional parts that a real cluster would have
BUILD_TIMEOUT_S = 600.0


def install_project(lab: Lab, source_dir: Path) -> bool:
    """Copy, build and install the working tree; return False if nothing has changed since."""
    files = working_tree(source_dir)
    mark = lab.settings.dir / "project.sha256"
    fingerprint = digest(files)
    if mark.exists() and mark.read_text() == fingerprint:
        return False
    mark.unlink(missing_ok=True)
    kept, target = built.folder(lab.settings.cache, files), lab.path(SOURCES)
    is_first = not target.exists()
    copy_changed(files, target)
    if is_first:
        built.restore(kept, files, target)
    install_requirements(lab, requirements(source_dir))
    pip = ["pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "."]
    lab.run(pip, workdir=SOURCES, env=build_env(lab), timeout=BUILD_TIMEOUT_S)
    built.save(kept, files, target)
    mark.write_text(fingerprint)
    return True


def working_tree(source_dir: Path) -> dict[str, bytes]:
    """Return the files that git tracks or would add, by name."""
    argv = ["git", "-c", "safe.directory=*", "-C", str(source_dir), "ls-files", "-coz"]
    try:
        listed = host.run([*argv, "--exclude-standard"])
    except LabError as err:
        raise LabError(str(source_dir), err.reason, "give a git working tree") from err
    paths = {name: source_dir / name for name in listed.split("\0") if name}
    return {name: path.read_bytes() for name, path in sorted(paths.items()) if path.is_file()}


def digest(files: Mapping[str, bytes]) -> str:
    """Return a hash of names and contents."""
    total = hashlib.sha256()
    for name, content in files.items():
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def copy_changed(files: Mapping[str, bytes], target: Path) -> None:
    """Bring a folder up to date, so that what was built from unchanged files is kept."""
    listing = target / ".lab-files"
    before = set(listing.read_text().split("\0")) if listing.exists() else set()
    if gone := before - set(files):
        for name in gone:
            (target / name).unlink(missing_ok=True)
        shutil.rmtree(target / "build", ignore_errors=True)
    for name, content in files.items():
        path = target / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    listing.write_text("\0".join(files))


def requirements(source_dir: Path) -> list[str]:
    """Return what the project needs at run time and to build, as pip writes it."""
    file = source_dir / "pyproject.toml"
    table = tomllib.loads(file.read_text()) if file.is_file() else {}
    project, build = table.get("project", {}), table.get("build-system", {})
    optional = project.get("optional-dependencies", {})
    needs = [*project.get("dependencies", []), *build.get("requires", [])]
    return needs + [need for extra in EXTRAS for need in optional.get(extra, [])]


def install_requirements(lab: Lab, needs: list[str]) -> None:
    """Install what is missing, over the host's network and with the host's settings of pip."""
    if not needs or satisfied(lab, needs):
        return
    settings = host.pip_settings()
    show_host_folders(lab, settings)
    shutil.copy("/etc/resolv.conf", lab.path("/etc/resolv.conf"))
    env = {**root.clean_env(), **host.apt_proxies(), **settings}
    lab.run(["pip", "install", "-q", *needs], env=env, network=False, timeout=BUILD_TIMEOUT_S)


def satisfied(lab: Lab, needs: list[str]) -> bool:
    """Return whether pip finds all of it installed."""
    done = lab.run(["pip", "install", "-q", "--no-index", *needs], check=False)
    return done.returncode == 0


def show_host_folders(lab: Lab, settings: dict[str, str]) -> None:
    """Bind the host's local package folders into the lab, in its mount namespace only."""
    lines = root.bind_lines(lab.settings.dir / "root", settings)
    argv = ["nsenter", f"--target={lab.space.init_pid}", "--mount", "sh", "-eu", "-c"]
    subprocess.run([*argv, "\n".join(lines)], check=True, timeout=30, stdout=subprocess.DEVNULL)


def build_env(lab: Lab) -> dict[str, str]:
    """Return the variables that say where Slurm's headers and libslurmfull are."""
    libraries = os.readlink(lab.path("/opt/slurm-lib"))
    return {"SLURM_INCLUDE_DIR": "/usr/include", "SLURM_LIB_DIR": libraries}
