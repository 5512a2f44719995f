"""HOST:PORT, where reports are answered over the network: as people write it, and as the daemon tells the reporter.

Only built-in modules: clients read this too.
"""

from __future__ import annotations

import os
from _socket import AF_INET, AF_INET6, inet_pton

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from pathlib import Path

FORM = "HOST:PORT, such as 10.1.0.2:6830 or [fd00::2]:6830"
HIGHEST_PORT = 65535
LONGEST_HOST = 253


def host_and_port(text: str) -> tuple[str, int]:
    """Return the host (an IPv6 address without its brackets) and the port.

    Raises:
        ValueError: with the reason.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and len(port) < 6):
        raise ValueError(f"not {FORM}")
    if not 1 <= int(port) <= HIGHEST_PORT:
        raise ValueError(f"port {port} is not one from 1 to {HIGHEST_PORT}")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if bare != host:
        good = _is_address(AF_INET6, bare)
    elif host.replace(".", "").isdigit():
        good = _is_address(AF_INET, host)
    else:
        good = _is_name(host)
    if not good:
        raise ValueError(f"{host} is neither a host's name nor an address; write {FORM}")
    return bare, int(port)


def _is_address(family: int, text: str) -> bool:
    try:
        inet_pton(family, text)
    except (OSError, UnicodeError, ValueError):
        return False
    return True


def _is_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    letters = host.replace(".", "").replace("-", "").replace("_", "")
    return len(host) <= LONGEST_HOST and letters.isascii() and letters.isalnum() and all(labels)


def tell(path: Path, address: str) -> None:
    """Tell the reporter where to listen besides its local socket, "" for nowhere."""
    fresh = path.with_suffix(".new")
    fresh.write_text(f"{address}\n")
    os.replace(fresh, path)


def told(path: Path) -> str:
    """Return where the daemon wants to be asked over the network, "" for nowhere."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
