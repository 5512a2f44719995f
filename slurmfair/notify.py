"""What systemd is told, by the sd_notify protocol: one datagram of NAME=value lines."""

from __future__ import annotations

import os
import socket
import time

READY = "READY=1"
WATCHDOG = "WATCHDOG=1"
STOPPING = "STOPPING=1"


def notify(*lines: str) -> None:
    """Send the lines to $NOTIFY_SOCKET; without one, or with nobody there, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto("\n".join(lines).encode(), address)
        except OSError:  # systemd restarting is no reason to stop deciding
            return


def status(text: str) -> str:
    return f"STATUS={text}"


def reloading() -> tuple[str, str]:
    """Type=notify-reload wants the monotonic time of the beginning, so that it knows the READY that ends it."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
