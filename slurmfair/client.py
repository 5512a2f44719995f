"""Asks the reporter over the local socket: what sfprio, sfshare and slurmfair are on the user's side.

Where there is no socket, as on login nodes, remote.py asks the server that is named.

A command is sent as it was typed and comes back as text, because starting Python costs more than the
answer: no argparse, no json, no numpy here, only modules that are built into Python.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, SHUT_WR, SO_RCVTIMEO, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket

from slurmfair.errors import DaemonUnreachable, SlurmfairError

TYPE_CHECKING = False  # typing itself costs milliseconds; type checkers take this name for theirs
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from slurmfair.paths import Paths

TIMEOUT_S = 60
TRIES = 3  # a busy reporter may cut off whoever was slow to ask
PASSED_ON = ("SFPRIO_FORMAT", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT", "NO_COLOR", "TERM", "TZ")
EXIT_FAILED = 1


def run(command: str, argv: list[str]) -> int:
    """Print what the reporter answers to a command line; return its exit status."""
    request = _request(command, argv)
    try:
        for left in reversed(range(TRIES)):
            code = _printed(request)
            if code is not None:
                return code
            if left:
                _rest()
        raise DaemonUnreachable(f"{socket_path()}: closed without an answer; try again")
    except DaemonUnreachable as err:
        return _alone(command, argv, err)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def _rest() -> None:
    from time import sleep

    sleep(0.2)


def _alone(command: str, argv: list[str], err: DaemonUnreachable) -> int:
    """Without a reporter: --help, --version and mistakes in the command line are answered all the same."""
    from slurmfair.cli.commands import answer_alone

    code = answer_alone(command, argv)
    if code is None:
        sys.stderr.write(f"{full_name(command)}: error: {err}\n")
        return EXIT_FAILED
    return code


def full_name(command: str) -> str:
    """Return what people type for a command of the reporter."""
    return command if command.startswith("sf") else f"slurmfair {command}"


def socket_path() -> str:
    """Return the path of the reporter's socket: paths.Paths.socket, without the price of pathlib."""
    return (os.environ.get("RUNTIME_DIRECTORY") or "/run/slurmfair") + "/socket"


def _printed(request: bytes) -> int | None:
    """Copy an answer's frames to stdout and stderr; return the exit status, None if there was no answer."""
    begun = False
    with opened(socket_path(), request) as stream:
        while frame := next_frame(stream):
            kind, size, body = frame
            if kind == b"x":
                sys.stdout.flush()
                return size
            begun = True
            if kind == b"o":
                sys.stdout.buffer.write(body)
            else:
                sys.stdout.flush()
                sys.stderr.buffer.write(body)
                sys.stderr.flush()
    if begun:
        raise DaemonUnreachable(f"{socket_path()}: the answer was cut short; try again")
    return None


def next_frame(stream: BinaryIO) -> tuple[bytes, int, bytes] | None:
    """Return (kind, number, text) of the next frame, None at the end: o stdout, e stderr, x exit status."""
    try:
        kind, _, number = stream.readline(64).partition(b" ")
        if not number:
            return None
        size = int(number)
        body = b"" if kind == b"x" else stream.read(size)
    except OSError as err:
        raise DaemonUnreachable(f"{socket_path()}: no answer within {TIMEOUT_S} s ({err.strerror})") from err
    return (kind, size, body) if kind == b"x" or len(body) == size else None


def opened(path: str, request: bytes) -> BinaryIO:
    """Return the answer to a request as a file to read from: by the local socket where it is, else from a server.

    Raises:
        DaemonUnreachable: nobody listens, or it takes longer than TIMEOUT_S.
    """
    try:
        return connected(path, request)
    except (FileNotFoundError, NotADirectoryError):
        from slurmfair.remote import answered

        return answered(request, path)


def connected(path: str, request: bytes) -> BinaryIO:
    """Return the answer of the reporter behind a local socket.

    Raises:
        DaemonUnreachable: nobody listens, or it takes longer than TIMEOUT_S.
        FileNotFoundError, NotADirectoryError: there is no socket.
    """
    sock = socket(AF_UNIX, SOCK_STREAM)
    limit = TIMEOUT_S.to_bytes(8, sys.byteorder) + bytes(8)
    try:
        sock.setsockopt(SOL_SOCKET, SO_RCVTIMEO, limit)
        sock.setsockopt(SOL_SOCKET, SO_SNDTIMEO, limit)
        sock.connect(path)
        sock.sendall(request)
        sock.shutdown(SHUT_WR)
    except BrokenPipeError:
        pass  # cut off while we asked; there may be an answer that says why
    except (FileNotFoundError, NotADirectoryError):
        sock.close()
        raise
    except OSError as err:
        sock.close()
        raise DaemonUnreachable(
            f"{path}: nobody answers ({err.strerror or err}); see whether the daemon runs: "
            "systemctl status slurmfaird slurmfair-report"
        ) from err
    return os.fdopen(sock.detach(), "rb")


def _request(command: str, argv: list[str]) -> bytes:
    words = ",".join(quoted(word) for word in [command, *argv])
    found = ((name, os.environ.get(name)) for name in PASSED_ON)
    environment = ",".join(f"{quoted(name)}:{quoted(value)}" for name, value in found if value)
    terminal = "true" if os.isatty(1) else "false"
    width = os.get_terminal_size(1).columns if terminal == "true" else 0
    text = f'{{"command":[{words}],"environment":{{{environment}}},"terminal":{terminal},"width":{width}}}\n'
    return text.encode("utf-8", "replace")


def quoted(text: str) -> str:
    """Return a JSON string."""
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    import json

    return json.dumps(text)


def ask(paths: Paths, report: str, **request: Any) -> dict[str, Any]:
    """Return the answer of one of reports.REPORTS: `age_s` of the data, `about` the daemon, and the `body`.

    Raises:
        DaemonUnreachable: nobody answers.
        SlurmfairError: the answer is a refusal.
    """
    import json

    line = json.dumps({"report": report, **request}).encode() + b"\n"
    try:
        with opened(str(paths.socket), line) as stream:
            text = stream.read()
    except OSError as err:
        raise DaemonUnreachable(f"{paths.socket}: no answer ({err.strerror or err}); try again") from err
    if not text:
        raise DaemonUnreachable(f"{paths.socket}: closed without an answer; try again")
    try:
        answer: dict[str, Any] = json.loads(text)
    except ValueError as err:
        raise DaemonUnreachable(f"{paths.socket}: the answer was cut short; try again") from err
    if "error" in answer:
        raise SlurmfairError(str(answer["error"]))
    return answer
