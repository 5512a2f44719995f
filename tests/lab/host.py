"""What the lab needs of its host: commands, Debian's mirror, pip's settings, CA bundle."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .errors import LabError

CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def run(argv: Sequence[str], timeout_s: float = 60, env: Mapping[str, str] | None = None) -> str:
    """Run a command of the host and return what it printed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise LabError(argv[0], str(err), "run it by hand") from err
    if done.returncode != 0:
        raise LabError(shlex.join(argv), last_lines(done.stdout + done.stderr), "run it by hand")
    return done.stdout


def last_lines(text: str, n_lines: int = 8) -> str:
    """Return the end of some output, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-n_lines:]) or "no output"


def remove(folder: Path, last: str | None = None, timeout_s: float = 20.0) -> None:
    """Remove a folder whose processes are ending, the file `last` in it after all others."""
    deadline_s = time.monotonic() + timeout_s
    while folder.exists():
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != last:
                path.unlink(missing_ok=True)
        if {path.name for path in folder.iterdir()} <= {last}:
            shutil.rmtree(folder, ignore_errors=True)
        if folder.exists() and time.monotonic() > deadline_s:
            raise LabError(str(folder), "cannot be removed", "remove it by hand")


def check() -> None:
    """Raise unless this host can hold a lab."""
    if reason := unfit():
        raise LabError("host", reason, "run the lab as root on a Debian machine")


def unfit() -> str | None:
    """Return why this host cannot hold a lab, if so."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "the lab needs root on Linux"
    if missing := [tool for tool in ("unshare", "nsenter", "apt-get") if not shutil.which(tool)]:
        return f"missing command: {', '.join(missing)}"
    return None


def install_debootstrap() -> None:
    """Install Debian's debootstrap unless it is there."""
    if shutil.which("debootstrap"):
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], 300, env)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "debootstrap"], 300, env)


def mirror() -> str:
    """Return the address of the mirror that the host's own apt uses for Debian."""
    layout = "$(REPO_URI) $(COMPONENT)"
    rows = run(["apt-get", "indextargets", "--format", layout, "Created-By: Packages"])
    for address, component in (row.split() for row in rows.splitlines() if " " in row):
        if component == "main" and address.rstrip("/").endswith("/debian"):
            return address
    raise LabError("apt", "no source of Debian's main archive", "add one to /etc/apt/sources.list.d")


def apt_proxies() -> dict[str, str]:
    """Return apt's proxies as variables that wget (and so debootstrap) understands."""
    found = {name: os.environ[name] for name in PROXY_VARIABLES if name in os.environ}
    for scheme in ("http", "https"):
        line = run(["apt-config", "shell", "PROXY", f"Acquire::{scheme}::Proxy"]).strip()
        value = line.partition("=")[2].strip("'\"")
        if value and value != "DIRECT":
            found[f"{scheme}_proxy"] = value
    return found


def ca_bundle() -> Path | None:
    """Return the host's bundle of certificate authorities."""
    named = [os.environ[name] for name in ("PIP_CERT", "SSL_CERT_FILE") if os.environ.get(name)]
    return next((Path(path) for path in (*named, *CA_BUNDLES) if Path(path).is_file()), None)


def pip_settings() -> dict[str, str]:
    """Return the host's settings of pip, from its files and variables, as PIP_* variables."""
    settings: dict[str, str] = {}
    for row in run([sys.executable, "-m", "pip", "config", "list"]).splitlines():
        name, _, value = row.partition("=")
        key = name.rpartition(".")[2]
        if key not in ("cert", "user", "target", "prefix", "require-virtualenv"):
            variable = "PIP_" + key.upper().replace("-", "_")
            settings[variable] = " ".join(str(ast.literal_eval(value)).split())
    return settings


def pip_paths(settings: Mapping[str, str]) -> set[Path]:
    """Return the folders and files of the host that pip's settings name."""
    return {path for value in settings.values() for path in local_paths(value)}


def local_paths(value: str) -> Iterator[Path]:
    """Return the existing paths in a setting; of a local index the folder around it."""
    for word in value.split():
        is_index = word.startswith("file:///")
        path = Path(unquote(urlsplit(word).path)).parent if is_index else Path(word)
        if path.is_absolute() and path != Path("/") and path.exists():
            yield path
