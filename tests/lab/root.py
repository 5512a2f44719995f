"""The root folder of a lab: Debian's Slurm with pyslurm built in it, made once and cached."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import host
from .errors import LabError
from .stages import Stages

# Raise RECIPE when the build script below changes; the lists are part of the key anyway.
RECIPE = 1
SUITE = "forky"
SUITE_SCRIPT = "/usr/share/debootstrap/scripts/sid"
TRIED_SLURM = "26.05"
PYSLURM = "25.11.2"
PACKAGES = (
    "python3", "python3-venv", "python3-dev", "gcc", "slurmctld", "slurmd", "slurmdbd",
    "slurm-client", "slurm-wlm-basic-plugins", "libslurm-dev", "munge", "mariadb-server",
    "procps", "iproute2", "ca-certificates", "bash-completion", "groff-base", "tmux", "zsh",
)  # fmt: skip
PYTHON_PACKAGES = ("numpy", "PyYAML", "Cython", "setuptools", "wheel")

# pyslurm 25.11 compiles with Slurm 26.05 when it is told that this is 25.11 and given the old names.
PYSLURM_CFLAGS = (
    "-O1 -g0 -DSLURM_BACKWARD_COMPAT -Dslurm_free_ctl_conf=slurm_free_conf"
    " -DESLURM_ERROR_ON_DESC_TO_RECORD_COPY=2033"
)
PYSLURM_VERSION_NUMBER = "0x190b00"
BUILD_SCRIPT = """
set -eu
lib=/usr/lib/$(gcc -print-multiarch)/slurm-wlm
old=/opt/slurm-headers-25.11
mkdir -p $old/slurm
ln -s /usr/include/slurm/*.h $old/slurm/
rm $old/slurm/slurm_version.h
sed -E 's/(define SLURM_VERSION_NUMBER) .*/\\1 @number@/' \
    /usr/include/slurm/slurm_version.h > $old/slurm/slurm_version.h
ln -s $lib /opt/slurm-lib
python3 -m venv /opt/venv
/opt/venv/bin/pip install -q @packages@
SLURM_INCLUDE_DIR=$old SLURM_LIB_DIR=$lib PYSLURM_BUILD_JOBS=2 CFLAGS="@cflags@" \
    /opt/venv/bin/pip install -q --no-binary pyslurm pyslurm==@pyslurm@
install -d -o mysql -g mysql /run/mysqld /var/lib/mysql
rm -rf /var/lib/mysql/*
mariadb-install-db --user=mysql --skip-test-db --auth-root-authentication-method=normal \
    --innodb-log-file-size=8M >/dev/null
rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/*
slurmctld -V > /opt/slurm-version
"""


def key() -> str:
    """Return the name of the cached root: a hash of everything that goes into it."""
    parts = (RECIPE, SUITE, PACKAGES, PYSLURM, PYSLURM_CFLAGS, PYTHON_PACKAGES, BUILD_SCRIPT)
    return f"{SUITE}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]}"


def ready_root(cache: Path, stages: Stages) -> Path:
    """Return the cached root, building it if this is the first time."""
    root = cache / key()
    if not root.is_dir():
        stages.say(f"building {root}, once; this takes some minutes")
        with build_lock(cache):
            if not root.is_dir():
                build(root, stages)
    stages.done(f"root {root.name}, Slurm {slurm_version(root)}")
    return root


@contextmanager
def build_lock(cache: Path) -> Iterator[None]:
    """Let one builder at a time work on the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{key()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel drops it when the builder dies
        yield


def build(root: Path, stages: Stages) -> None:
    """Build the root beside its place, then move it there in one step."""
    sweep(root)
    fresh = root.with_name(f"{root.name}.building-{os.getpid()}")
    try:
        host.install_debootstrap()
        stages.done("debootstrap is there")
        debootstrap(fresh)
        stages.done(f"packages of {SUITE}")
        build_python(fresh)
        stages.done(f"pyslurm {PYSLURM}")
        fresh.rename(root)
    finally:
        host.remove(fresh)
    warn_if_untried(slurm_version(root))


def sweep(root: Path) -> None:
    """Remove what builders that were killed left behind; the caller holds the lock."""
    for stale in root.parent.glob(f"{root.name}.building-*"):
        host.remove(stale)


def debootstrap(root: Path) -> None:
    """Unpack Debian's packages into the folder."""
    argv = [
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        SUITE, str(root), host.mirror(), SUITE_SCRIPT,
    ]  # fmt: skip
    contained(argv, root.with_suffix(".log"), {**os.environ, **host.apt_proxies()})


def build_python(root: Path) -> None:
    """Build pyslurm inside the root, and an empty database."""
    script = BUILD_SCRIPT
    for name, value in {
        "number": PYSLURM_VERSION_NUMBER,
        "packages": " ".join(PYTHON_PACKAGES),
        "cflags": PYSLURM_CFLAGS,
        "pyslurm": PYSLURM,
    }.items():
        script = script.replace(f"@{name}@", value)
    copy_host_files(root)
    settings = host.pip_settings()
    outer = ["set -eu", "mount --make-rprivate /"]
    outer += [f"mount --rbind /{name} {root}/{name}" for name in ("dev", "sys")]
    outer += [f"mount -t proc proc {root}/proc", *bind_lines(root, settings)]
    outer += [f'exec chroot {root} sh -c "$BUILD"']
    env = {**clean_env(), **host.apt_proxies(), **settings, "BUILD": script}
    contained(["sh", "-c", "\n".join(outer)], root.with_suffix(".log"), env)


def bind_lines(root: Path, settings: dict[str, str]) -> list[str]:
    """Return shell lines that show the host's local package folders inside the root."""
    lines = []
    for path in sorted(host.pip_paths(settings)):
        inside = root / path.relative_to("/")
        made = f"mkdir -p {inside}" if path.is_dir() else f"mkdir -p {inside.parent}; : > {inside}"
        lines.append(f"{made}; mount --bind {path} {inside}")
    return lines


def copy_host_files(root: Path) -> None:
    """Give the root the host's name service and certificate authorities."""
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copy("/etc/hosts", root / "etc/hosts")
    if bundle := host.ca_bundle():
        shutil.copy(bundle, root / "etc/ssl/certs/ca-certificates.crt")


def clean_env() -> dict[str, str]:
    """Return the environment of commands inside a root."""
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    return {
        "PATH": "/opt/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        "SSL_CERT_FILE": bundle,
        "PIP_CERT": bundle,
    }


def contained(argv: list[str], log: Path, env: dict[str, str]) -> None:
    """Run a long command in own mount and pid namespaces, so that it leaves nothing when killed."""
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    wrapped = ["setpriv", "--pdeathsig=KILL", *spaces, *argv]
    with log.open("a") as out:
        child = subprocess.Popen(wrapped, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)
        try:
            status = child.wait()
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
    if status != 0:
        reason = host.last_lines(log.read_text(errors="replace"))
        raise LabError(argv[0], f"exit {status}: {reason}", f"read {log}, then try again")


def slurm_version(root: Path) -> str:
    """Return the release of Slurm in a root."""
    text = (root / "opt/slurm-version").read_text()
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found[0] if found else text.strip()


def warn_if_untried(version: str) -> None:
    """Say so when the archive has moved to a release that nobody has tried."""
    if not version.startswith(TRIED_SLURM):
        print(f"lab: warning: Slurm {version} is untried (tried: {TRIED_SLURM}.x)", file=sys.stderr)
