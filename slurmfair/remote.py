"""Asks a reporter on another host: what the commands do on login nodes, where there is no socket.

Nothing here is imported where the local socket answers, which is faster.
"""

from __future__ import annotations

import os
import pwd
import socket
from io import BytesIO
from time import sleep

from slurmfair.address import host_and_port
from slurmfair.errors import DaemonUnreachable, MungeUnavailable, NotAuthentic
from slurmfair.munge import Munge as RealMunge
from slurmfair.sealed import (
    BEGIN,
    LONGEST_LINE,
    REFUSED,
    Untrusted,
    new_mark,
    opened_part,
    sealed_request,
)

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from slurmfair.sealed import Munge

VARIABLE, FILE = "SLURMFAIR_SERVER", "/etc/slurmfair/server"
ACCOUNT = "slurmfair"  # of the daemon, where the server's name does not tell another
TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
TRIES = 3
FORM = f"write [ACCOUNT@]HOST:PORT into {FILE}, as in reports.listen of the policy file, or set {VARIABLE}"


class Server:
    """A reporter on another host: where it listens, and as which account the daemon runs there."""

    def __init__(self, text: str, source: str) -> None:
        """Raises DaemonUnreachable: the text names no server."""
        account, _, address = text.rpartition("@")
        try:
            self.host, self.port = host_and_port(address)
        except ValueError as err:
            raise DaemonUnreachable(f"{source}: {text[:80]!r} names no server ({err}); {FORM}") from err
        self.account = account or ACCOUNT
        self.name = f"{address} (from {source})"

    def trusted(self) -> set[int]:
        """Return the uids whose answers count: root's, and that of the daemon's account."""
        if self.account.isascii() and self.account.isdigit():
            return {0, int(self.account)}
        try:
            return {0, pwd.getpwnam(self.account).pw_uid}
        except KeyError:
            return {0}


def named_server(variable: str, path: str) -> Server | None:
    """Return the server that a variable of the environment names, else the file's first line, None if neither does.

    Raises:
        DaemonUnreachable: what stands there names no server, or cannot be read.
    """
    if variable.strip():
        return Server(variable.strip(), VARIABLE)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = (line.partition("#")[0].strip() for line in file)
            text = next((line for line in lines if line), "")
    except FileNotFoundError:
        return None
    except OSError as err:
        raise DaemonUnreachable(f"{path}: cannot be read ({err.strerror}); {FORM}") from err
    return Server(text, path)


def answered(request: bytes, missing: str) -> BinaryIO:
    """Return the whole answer of the named server; `missing` is the local socket that is not there.

    Raises:
        DaemonUnreachable: there is no server, it does not answer, or its answer is not authentic.
    """
    server = named_server(os.environ.get(VARIABLE, ""), FILE)
    if server is None:
        raise DaemonUnreachable(
            f"{missing}: nobody answers: there is no such socket here, and no server is named; on a login node {FORM}; "
            "on the host of slurmfaird see whether it runs: systemctl status slurmfaird slurmfair-report"
        )
    try:
        return BytesIO(whole_answer(server, RealMunge(), request))
    except (MungeUnavailable, NotAuthentic) as err:
        raise DaemonUnreachable(f"{server.name}: {err}") from err


def whole_answer(server: Server, munge: Munge, request: bytes) -> bytes:
    """Return an answer that came whole and from the daemon's account.

    Raises:
        DaemonUnreachable: nobody answers, or refuses.
        MungeUnavailable, NotAuthentic: from munge on this host.
    """
    for left in reversed(range(TRIES)):
        parts = list(_parts(server, munge, request))
        if parts:
            return b"".join(parts)
        if left:  # a busy reporter may cut off whoever was slow to ask
            sleep(0.2)
    raise DaemonUnreachable(f"{server.name}: closed without an answer; try again")


def _parts(server: Server, munge: Munge, request: bytes) -> Iterator[bytes]:
    mark = new_mark()
    trusted = server.trusted()
    number, last = 0, False
    for line in _lines(server, sealed_request(munge, request, mark)):
        if not line.startswith(BEGIN):
            raise DaemonUnreachable(f"{server.name}: {_refusal(line)}")
        try:
            body, last = opened_part(munge, line, mark, number, trusted)
        except Untrusted as err:
            raise DaemonUnreachable(_untrusted(server, err.uid)) from err
        yield body
        number += 1
        if last:
            return
    if number:
        raise DaemonUnreachable(f"{server.name}: the answer was cut short; try again")


def _lines(server: Server, credential: bytes) -> Iterator[bytes]:
    """Ask, and yield the lines of the answer."""
    try:
        with socket.create_connection((server.host, server.port), CONNECT_TIMEOUT_S) as sock:
            sock.settimeout(TIMEOUT_S)
            sock.sendall(credential + b"\n")
            sock.shutdown(socket.SHUT_WR)
            with sock.makefile("rb") as stream:
                while line := stream.readline(LONGEST_LINE):
                    yield line
    except ConnectionResetError:  # cut off while we asked
        return
    except (OSError, UnicodeError) as err:
        reason = getattr(err, "strerror", None) or err
        raise DaemonUnreachable(
            f"{server.name}: nobody answers ({reason}); see whether slurmfaird runs there and its policy has "
            "reports: {listen: ...}"
        ) from err


def _refusal(line: bytes) -> str:
    """Return what somebody said in clear."""
    if line.startswith(REFUSED):
        from slurmfair.cli.text import printable

        return f"refused; the server says: {printable(line.removeprefix(REFUSED).decode('utf-8', 'replace').strip())}"
    return "does not speak as slurmfair does; see which port reports.listen of the policy file names"


def _untrusted(server: Server, uid: int) -> str:
    return (
        f"{server.name}: the answer comes from uid {uid} and not from {server.account}; "
        f"if slurmfaird runs as uid {uid}, name the server {uid}@{server.host}:{server.port}"
    )
