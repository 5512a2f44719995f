from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmfair import client
from slurmfair.errors import DaemonUnreachable, SlurmfairError
from slurmfair.paths import Paths
from slurmfair.view import View, save
from tests.views import job, many, quota, view

ANSWERS_WITHIN_S = 3.0


@dataclass(frozen=True)
class Reporter:
    """A reporter process of our own, with its folder."""

    paths: Paths
    process: subprocess.Popen[bytes]

    def publish(self, told: View) -> None:
        save(told, self.paths.view)

    def memory_mib(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))) / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def settled(self, most: int) -> bool:
        """Tell whether it has closed all but `most` descriptors, at the latest when its own timeouts are over."""
        until_s = time.monotonic() + 10
        while self.descriptors() > most and time.monotonic() < until_s:
            ask_status(self.paths)
        return self.descriptors() <= most


def fresh(told: View) -> View:
    """Return the view as if it had just been decided, by this process."""
    return View(
        told.about | {"now_s": int(time.time()), "pid": os.getpid()}, told.jobs, told.texts, told.quotas
    )


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Return a reporter that has said that it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(folder / "notify"))
        notify.settimeout(30)
        environment = os.environ | {"NOTIFY_SOCKET": str(folder / "notify")}
        command = [sys.executable, "-m", "slurmfair.reporter", str(folder), str(folder)]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        assert notify.recv(100) == b"READY=1\nSTATUS=serving"
    (folder / "notify").unlink()
    return process


@contextlib.contextmanager
def serving(folder: Path, told: View | None) -> Iterator[Reporter]:
    paths = Paths(folder, folder)
    if told is not None:
        save(told, paths.view)
    process = started(folder)
    try:
        yield Reporter(paths, process)
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Reporter]:
    with serving(tmp_path, fresh(view([job(3), job(4, user="bob")], [quota("vision")]))) as one:
        yield one


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reporter]:
    """One for all tests that only ask, and must not be able to harm it."""
    told = fresh(view([job(3), job(4, user="bob")], [quota("vision")]))
    told.about["interval_s"] = 1000.0
    with serving(tmp_path_factory.mktemp("shared"), told) as one:
        yield one


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Reporter]:
    with serving(tmp_path, fresh(many(20_000))) as one:
        yield one


def ask_status(paths: Paths) -> dict[str, Any]:
    return client.ask(paths, "status")


def connected(reporter: Reporter) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(30)
    sock.connect(str(reporter.paths.socket))
    return sock


def everything(sock: socket.socket) -> bytes:
    out = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(1 << 20):
            out += piece
    return out


def sfprio(reporter: Reporter, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"RUNTIME_DIRECTORY": str(reporter.paths.run_dir)}
    command = [sys.executable, "-m", "slurmfair.cli.sfprio", *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_sfprio_prints_what_the_reporter_answers(shared: Reporter) -> None:
    done = sfprio(shared, "-h", "-o", "%i %u")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 ann\n4 bob\n", "")


def test_words_that_are_not_ascii_arrive(shared: Reporter) -> None:
    done = sfprio(shared, "-h", "-j3", '-ogröße"\\\t名%i')
    assert (done.returncode, done.stdout) == (0, 'größe"\\\t名3\n')
    broken = sfprio(shared, "-h", "-j3", "-o\udcff%i")
    assert (broken.returncode, broken.stderr) == (0, "")


def test_nothing_heavy_is_imported_on_the_users_side(shared: Reporter) -> None:
    code = (
        "import sys; sys.argv=['sfprio']; from slurmfair.cli.sfprio import main; main();"
        "print(*{'numpy','argparse','json','socket','asyncio','dataclasses','typing','re'} & set(sys.modules))"
    )
    environment = os.environ | {"RUNTIME_DIRECTORY": str(shared.paths.run_dir)}
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(Path.cwd())!r}); {code}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_the_socket_is_where_paths_says(shared: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(shared.paths.run_dir))
    assert client.socket_path() == str(shared.paths.socket)
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    from slurmfair.paths import default_paths

    assert client.socket_path() == str(default_paths().socket)


def test_a_new_decision_is_seen_at_once(small: Reporter) -> None:
    small.publish(fresh(view([job(99)], [quota("vision")])))
    assert sfprio(small, "-h", "-o%i").stdout == "99\n"


def test_a_broken_file_is_an_error_and_no_end(small: Reporter) -> None:
    small.paths.view.with_suffix(".new").write_bytes(b"PK nonsense")
    small.paths.view.with_suffix(".new").replace(small.paths.view)
    done = sfprio(small)
    assert done.returncode == 1
    assert "no decision published yet" in done.stderr
    small.publish(fresh(view([job(5)], [quota("vision")])))
    assert sfprio(small, "-ho%i").stdout == "5\n"


def test_before_the_first_decision_there_is_a_message(tmp_path: Path) -> None:
    with serving(tmp_path, None) as reporter:
        done = sfprio(reporter)
        assert (done.returncode, done.stdout) == (1, "")
        assert "no decision published yet" in done.stderr
        with pytest.raises(SlurmfairError, match="no decision published yet"):
            ask_status(reporter.paths)


def test_a_dead_daemon_leaves_its_last_view_with_its_age(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    told = fresh(view([job(3)], [quota("vision")]))
    told.about.update(pid=gone.pid, now_s=int(time.time()) - 300)
    with serving(tmp_path, told) as reporter:
        done = sfprio(reporter, "-ho%i")
        assert (done.returncode, done.stdout) == (1, "3\n")
        assert "slurmfaird is not running, these data are 5 min" in done.stderr
        assert ask_status(reporter.paths)["away"].startswith("slurmfaird is not running")


def test_a_daemon_that_hangs_is_told_from_one_that_is_gone(tmp_path: Path) -> None:
    told = fresh(view([job(3)], [quota("vision")]))
    told.about.update(now_s=int(time.time()) - 300)
    with serving(tmp_path, told) as reporter:
        assert "slurmfaird has decided nothing since" in sfprio(reporter).stderr


def test_without_a_reporter_there_is_a_message_and_help_works(tmp_path: Path) -> None:
    environment = os.environ | {"RUNTIME_DIRECTORY": str(tmp_path)}

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "slurmfair.cli.sfprio", *argv]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    plain, told, wrong = run(), run("--help"), run("foo")
    assert (plain.returncode, plain.stdout) == (1, "")
    assert "nobody answers" in plain.stderr
    assert "systemctl status slurmfaird" in plain.stderr
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: sfprio")
    assert "Unrecognized option: foo" in wrong.stderr
    assert "Traceback" not in plain.stderr + wrong.stderr


def test_another_reporter_stands_by_and_takes_over(small: Reporter) -> None:
    command = [
        sys.executable,
        "-m",
        "slurmfair.reporter",
        str(small.paths.state_dir),
        str(small.paths.run_dir),
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(small.paths.run_dir / "notify2"))
        notify.settimeout(30)
        environment = os.environ | {"NOTIFY_SOCKET": str(small.paths.run_dir / "notify2")}
        second = subprocess.Popen(command, env=environment)
        try:
            assert notify.recv(100) == b"READY=1\nSTATUS=standing by: another reporter serves"
            assert sfprio(small, "-ho%i").stdout == "3\n4\n"
            small.process.send_signal(signal.SIGKILL)
            assert notify.recv(100) == b"READY=1\nSTATUS=serving"
            assert sfprio(small, "-ho%i").stdout == "3\n4\n"
        finally:
            second.terminate()
            second.wait(timeout=10)


def test_a_closed_pipe_is_no_error_message(large: Reporter) -> None:
    environment = os.environ | {"RUNTIME_DIRECTORY": str(large.paths.run_dir)}
    command = f"{sys.executable} -m slurmfair.cli.sfprio | head -1"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("          JOBID")
    assert done.stderr == ""


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\n", b"null\n", b"5\n", b"[]\n", b"{}\n", b'"x"\n', b"\xff\xfe\n", b"GET / HTTP/1.1\r\n\r\n", b"[" * 60000 + b"\n",
        b'{"command":[]}\n', b'{"command":"sfprio"}\n', b'{"command":[1]}\n', b'{"command":["nonsense"]}\n',
        b'{"command":["sfprio"],"environment":[]}\n', b'{"command":["sfprio"],"environment":{"TZ":5}}\n',
        b'{"command":["sfprio"],"width":"wide"}\n', b'{"command":["sfprio"],"width":1e400}\n',
        b'{"command":["sfprio","-j","99999999999999999999"]}\n', b'{"command":["sfprio","-u","99999999999999999999"]}\n',
        b'{"command":["sfprio"],"environment":{"TZ":"../../etc/passwd"}}\n', b'{"command":["sfprio","-o","%99999999999i"]}\n',
        b'{"command":["explain"]}\n', b'{"command":["explain","1","\\u0000"]}\n', b'{"report":"jobs","columns":5}\n',
        b'{"report":"jobs","columns":"job_id"}\n', b'{"report":["jobs"]}\n', b'{"report":{"a":1}}\n', b'{"report":"quotas"}',
        b'{"command":["sfprio","-j","7_[0-999999999:1]"]}\n', b'{"command":["sfprio","--json","-S","\\ud800"]}\n',
    ],
)  # fmt: skip
def test_nonsense_is_answered_and_hurts_nobody(shared: Reporter, line: bytes) -> None:
    with connected(shared) as sock:
        sock.sendall(line)
        sock.shutdown(socket.SHUT_WR)
        answer = everything(sock)
    assert b"Traceback" not in answer
    assert answer or not line.strip()
    assert sfprio(shared, "-ho%i").stdout == "3\n4\n"


def test_megabytes_are_cut_off(shared: Reporter) -> None:
    before = shared.memory_mib()
    with connected(shared) as sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(64):
            sock.sendall(b"x" * (1 << 20))
    assert ask_status(shared.paths)["about"]["cluster"] == "lab"
    assert shared.memory_mib() < before + 20


def test_half_requests_delay_nobody(shared: Reporter) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            sock = stack.enter_context(connected(shared))
            sock.sendall(b'{"report":')
        began_s = time.monotonic()
        assert sfprio(shared, "-ho%i").stdout == "3\n4\n"
        assert time.monotonic() - began_s < ANSWERS_WITHIN_S


def test_ten_thousand_silent_connections_leave_room_for_others(shared: Reporter) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 12_000) if hard != resource.RLIM_INFINITY else 12_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    before, memory = shared.descriptors(), shared.memory_mib()
    crowd: list[socket.socket] = []
    try:
        for _ in range(min(10_000, wanted - 500)):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.setblocking(False)
            crowd.append(sock)
            with contextlib.suppress(BlockingIOError):  # the listen queue is full: the kernel turns them away
                sock.connect(str(shared.paths.socket))
        began_s = time.monotonic()
        assert ask_status(shared.paths)["about"]["cluster"] == "lab"
        assert time.monotonic() - began_s < 10
        assert shared.descriptors() < 1200
        assert shared.memory_mib() < memory + 60
    finally:
        for sock in crowd:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert shared.settled(before)


def test_clients_that_do_not_read_delay_nobody(large: Reporter) -> None:
    memory = large.memory_mib()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            sock = stack.enter_context(connected(large))
            sock.sendall(b'{"command":["sfprio","--json"]}\n')
        began_s = time.monotonic()
        assert len(sfprio(large, "-j", "5", "-h").stdout.splitlines()) == 1
        assert time.monotonic() - began_s < ANSWERS_WITHIN_S
        assert large.memory_mib() < memory + 150


def test_two_thousand_readers_at_once_are_all_answered(shared: Reporter) -> None:
    before = shared.descriptors()
    request = b'{"command":["sfprio","-h","-o","%i"]}\n'
    with selectors.DefaultSelector() as selector:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        answers: dict[socket.socket, bytes] = {}
        for _ in range(2000):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(str(shared.paths.socket))
            sock.sendall(request)
            answers[sock] = b""
            selector.register(sock, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(30)
            assert ready, f"{len(selector.get_map())} readers got no answer"
            for key, _ in ready:
                sock = key.fileobj  # type: ignore[assignment]
                piece = sock.recv(65536)
                answers[sock] += piece
                if not piece:
                    selector.unregister(sock)
                    sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(answers.values()) == {b"o 4\n3\n4\nx 0\n"}
    assert shared.settled(before)


def test_programs_get_json(shared: Reporter) -> None:
    answer = client.ask(shared.paths, "jobs", columns=["job_id"])
    assert answer["body"] == {"columns": {"job_id": [3, 4]}, "texts": {}, "hidden": 0}
    assert answer["age_s"] < 60
    with pytest.raises(SlurmfairError, match="no such report"):
        client.ask(shared.paths, "nonsense")


def test_nobody_there_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DaemonUnreachable, match="nobody answers"):
        ask_status(Paths(tmp_path, tmp_path))


def test_the_socket_goes_with_its_reporter(tmp_path: Path) -> None:
    with serving(tmp_path, None) as reporter:
        assert oct(reporter.paths.socket.stat().st_mode & 0o777) == "0o666"
    assert reporter.process.returncode == 0
    assert not reporter.paths.socket.exists()


def test_json_of_the_whole_queue_arrives_in_order(large: Reporter) -> None:
    told = json.loads(sfprio(large, "--json").stdout)
    assert [row["job_id"] for row in told["jobs"]] == list(range(1, 20_001))


def test_answers_that_are_shared_are_never_stale_or_somebody_elses(small: Reporter) -> None:
    assert sfprio(small, "-ho%i").stdout == sfprio(small, "-ho%i").stdout == "3\n4\n"
    assert sfprio(small, "-ho%u").stdout == "ann\nbob\n"
    small.publish(fresh(view([job(99)], [quota("vision")])))
    assert sfprio(small, "-ho%i").stdout == "99\n"
    told = fresh(view([job(99)], [quota("vision")]))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    assert sfprio(small, "-ho%i").returncode == 0
    gone.wait()
    told.about["pid"] = gone.pid
    small.publish(told)
    for _ in range(2):
        done = sfprio(small, "-ho%i")
        assert (done.returncode, done.stdout) == (1, "99\n")
        assert "slurmfaird is not running" in done.stderr


def test_a_reporter_ends_with_the_daemon_that_started_it(tmp_path: Path) -> None:
    """However that ended: a reporter of its own unit takes over then."""
    save(fresh(view([job(3)], [quota("vision")])), tmp_path / "view.npz")
    daemon = (
        "import os, subprocess, sys, signal\n"
        "command = [sys.executable, '-m', 'slurmfair.reporter', '--with', str(os.getpid()), *sys.argv[1:]]\n"
        "print(subprocess.Popen(command).pid, flush=True)\n"
        "signal.pause()"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(30)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        command = [sys.executable, "-c", daemon, str(tmp_path), str(tmp_path)]
        parent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        try:
            assert parent.stdout is not None
            reporter = int(parent.stdout.readline())
            assert notify.recv(100) == b"READY=1\nSTATUS=serving"
            watched = os.pidfd_open(reporter)
        finally:
            parent.kill()
            parent.communicate()
    assert select.select([watched], [], [], 20)[0]
    os.close(watched)
    assert not (tmp_path / "socket").exists()
