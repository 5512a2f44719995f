"""Asks the daemon's reporter over the local socket. Imports little, because every sfprio pays for it."""

from __future__ import annotations

import json
import socket
from typing import Any

from slurmfair.errors import DaemonUnreachable, SlurmfairError
from slurmfair.paths import Paths

TIMEOUT_S = 60.0


def ask(paths: Paths, report: str, **request: Any) -> dict[str, Any]:
    """Return the answer: `age_s` of the data, `about` the daemon, and the `body` asked for.

    Raises:
        DaemonUnreachable: nobody answers.
        SlurmfairError: the answer is a refusal.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(TIMEOUT_S)
            sock.connect(str(paths.socket))
            sock.sendall(json.dumps({"report": report, **request}).encode() + b"\n")
            sock.shutdown(socket.SHUT_WR)
            with sock.makefile("rb") as file:
                line = file.read()
    except OSError as err:
        raise DaemonUnreachable(
            f"{paths.socket}: nobody answers ({err.strerror or err}); see whether slurmfaird runs: "
            "systemctl status slurmfaird"
        ) from err
    if not line:
        raise DaemonUnreachable(f"{paths.socket}: closed without an answer; try again")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise SlurmfairError(str(answer["error"]))
    return answer
