"""Reports over the network: who asks is who munge says, and nobody can use, read or forge what is somebody else's."""

from __future__ import annotations

import asyncio
import json
import math
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

from slurmfair import munge as real
from slurmfair import network, remote
from slurmfair.address import tell
from slurmfair.desk import Desk
from slurmfair.errors import DaemonUnreachable, MungeUnavailable, NotAuthentic
from slurmfair.network import Clerk, keep_open, network_door
from slurmfair.paths import Paths
from slurmfair.remote import Server, named_server, whole_answer
from slurmfair.sealed import PART, opened_request, sealed_part, sealed_request
from slurmfair.view import View, save
from tests.fake_munge import FakeMunge
from tests.test_reporter import fresh, serving, sfprio
from tests.views import job, many, quota, view

DAEMON, ANN, BOB = 400, 2001, 2002
ALL_JOBS = b'{"command":["sfprio","-h","-o","%i %u"]}\n'
LOGIN = FakeMunge(ANN)  # of another host than the daemon's


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@dataclass
class Network:
    """A door to the network in a thread of its own."""

    paths: Paths
    desk: Desk
    loop: asyncio.AbstractEventLoop
    port: int
    heard: SimpleQueue[str]

    @property
    def server(self) -> Server:
        return Server(f"{DAEMON}@127.0.0.1:{self.port}", "test")

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def said(self, line: bytes) -> bytes:
        """Return everything that comes back for a line."""
        with self.connected() as sock:
            sock.sendall(line)
            sock.shutdown(socket.SHUT_WR)
            out = b""
            while piece := sock.recv(1 << 20):
                out += piece
            return out

    def local(self, request: bytes, uid: int) -> bytes:
        """Return what the local socket would answer."""

        async def everything() -> bytes:
            return b"".join([piece async for piece in self.desk.answer(request.rstrip(b"\n"), uid)])

        return asyncio.run_coroutine_threadsafe(everything(), self.loop).result(30)

    def wait_heard(self, text: str) -> None:
        while self.heard.get(timeout=20) != text:
            pass


async def all_over() -> None:
    """Wait for all other tasks."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def opened(folder: Path, told: View, munge: object, most: int = 64) -> Iterator[Network]:
    paths = Paths(folder, folder)
    save(told, paths.view)
    desk = Desk(paths, names={uid: (name, math.inf) for uid, name in ((ANN, "ann"), (BOB, "bob"))})
    loop = asyncio.new_event_loop()
    here = Network(paths, desk, loop, free_port(), SimpleQueue())
    door = network_door(desk, Clerk(connect=lambda: munge), most)  # type: ignore[arg-type, return-value]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    tell(paths.listen, f"127.0.0.1:{here.port}")
    open_door = asyncio.run_coroutine_threadsafe(keep_open(door, paths.listen, here.heard.put), loop)
    try:
        here.wait_heard(f"listens on 127.0.0.1:{here.port}")
        yield here
    finally:
        open_door.cancel()
        asyncio.run_coroutine_threadsafe(door.crowd.send_home(), loop).result(10)
        asyncio.run_coroutine_threadsafe(all_over(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        assert not thread.is_alive()
        loop.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "LOOK_S", 0.02)


def two_jobs(**about: object) -> View:
    told = fresh(view([job(3), job(4, user="bob")], [quota("vision")]))
    told.about.update(interval_s=1000.0, **about)
    return told


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Network]:
    with opened(tmp_path, two_jobs(), FakeMunge(DAEMON)) as here:
        yield here


def test_the_answer_is_the_same_as_on_the_local_socket(small: Network) -> None:
    answer = whole_answer(small.server, LOGIN, ALL_JOBS)
    assert answer == small.local(ALL_JOBS, ANN) == b"o 12\n3 ann\n4 bob\nx 0\n"
    report = b'{"report":"jobs","columns":["job_id"]}\n'
    assert json.loads(whole_answer(small.server, LOGIN, report))["body"]["columns"] == {"job_id": [3, 4]}


def test_an_answer_of_many_parts_is_put_together(tmp_path: Path) -> None:
    with opened(tmp_path, fresh(many(3_000)), FakeMunge(DAEMON)) as here:
        request = b'{"command":["sfprio","-h","-o","%i %u %.200g"]}\n'
        answer = whole_answer(here.server, LOGIN, request)
        assert len(answer) > 4 * PART
        assert answer == here.local(request, ANN)


def test_private_jobs_are_hidden_by_the_uid_of_the_credential(tmp_path: Path) -> None:
    with opened(tmp_path, two_jobs(private_jobs=True, operators=["bob"]), FakeMunge(DAEMON)) as here:
        assert b"3 ann" in whole_answer(here.server, LOGIN, ALL_JOBS)
        assert b"bob" not in whole_answer(here.server, LOGIN, ALL_JOBS)
        assert b"3 ann\n4 bob" in whole_answer(here.server, LOGIN.of(BOB), ALL_JOBS)
        assert b"3 ann\n4 bob" in whole_answer(here.server, LOGIN.of(0), ALL_JOBS)
        assert b"ann" not in whole_answer(here.server, LOGIN.of(77777), ALL_JOBS), "a uid without a name"


def test_only_operators_change_settings(small: Network) -> None:
    answer = whole_answer(small.server, LOGIN, b'{"command":["set","h100","k=2"]}\n')
    assert b"user ann may not change settings" in answer


def test_a_credential_counts_once(small: Network) -> None:
    line = sealed_request(LOGIN, ALL_JOBS, "a1") + b"\n"
    assert small.said(line).startswith(b"MUNGE:")
    assert small.said(line) == b"REFUSED the munge credential has been used before\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (sealed_request(FakeMunge(ANN, "theirs"), ALL_JOBS, "a1"), b"was made with another key"),
        (LOGIN.encode(b"slurmfair-ask-1 a1\n" + ALL_JOBS, BOB), b"is for somebody else"),
        (LOGIN.encode(ALL_JOBS), b"asks something else"),
        (LOGIN.encode(b"slurmfair-ask-1 ../..\n" + ALL_JOBS), b"asks something else"),
        (LOGIN.encode(b"slurmfair-ask-1 " + b"a" * 1000 + b"\n" + ALL_JOBS), b"asks something else"),
        (sealed_part(LOGIN, ALL_JOBS, DAEMON, "a1", 0, True), b"asks something else"),
        (b"MUNGE:xxx:", b"is broken"),
        (b"MUNGE:\0\xff:", b"is broken"),
        (ALL_JOBS, b"not a munge credential"),
        (b"GET / HTTP/1.1\r\n\r\n", b"not a munge credential"),
        (b"\xff\xfe\n", b"not a munge credential"),
    ],
)
def test_what_proves_nothing_is_refused_and_hurts_nobody(small: Network, line: bytes, told: bytes) -> None:
    answer = small.said(line + b"\n")
    assert answer.startswith(b"REFUSED ")
    assert told in answer
    assert b"ann" in whole_answer(small.server, LOGIN, ALL_JOBS)


def test_an_authentic_request_that_is_nonsense_is_answered(small: Network) -> None:
    assert b"request not understood" in whole_answer(small.server, LOGIN, b"\xff[[[\n")
    assert b"is no command" in whole_answer(small.server, LOGIN, b'{"command":["rm"]}\n')


def test_nobody_else_can_open_an_answer(small: Network) -> None:
    line = small.said(sealed_request(LOGIN, ALL_JOBS, "a1") + b"\n").rstrip(b"\n")
    for somebody in (BOB, DAEMON):
        with pytest.raises(NotAuthentic, match="for somebody else"):
            FakeMunge(somebody).decode(line)
    assert FakeMunge(ANN).decode(line)[0].endswith(b"3 ann\n4 bob\nx 0\n")


def test_clients_that_hang_or_flood_leave_room_for_others(tmp_path: Path) -> None:
    with opened(tmp_path, two_jobs(), FakeMunge(DAEMON), most=20) as here, ExitStack() as stack:
        for _ in range(100):
            sock = stack.enter_context(here.connected())
            with suppress(OSError):
                sock.sendall(b"MUNGE:half")
        flood = stack.enter_context(here.connected())
        with suppress(OSError):
            for _ in range(32):
                flood.sendall(b"x" * (1 << 20))
        began_s = time.monotonic()
        assert b"3 ann" in whole_answer(here.server, LOGIN, ALL_JOBS)
        assert time.monotonic() - began_s < 10


class Hanging(FakeMunge):
    """A munged that takes a request and never answers."""

    forever = threading.Event()

    def decode(self, credential: bytes) -> tuple[bytes, int]:
        self.forever.wait()
        raise MungeUnavailable("stopped")


def test_a_munge_that_hangs_delays_nobody_and_not_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MUNGE_TIMEOUT_S", 0.2)
    with opened(tmp_path, two_jobs(), Hanging(DAEMON)) as here:
        for _ in range(network.MOST_THREADS + 2):
            with pytest.raises(DaemonUnreachable, match=r"munge on the host of slurmfaird does not answer"):
                whole_answer(here.server, LOGIN, ALL_JOBS)
        assert here.local(ALL_JOBS, ANN).endswith(b"x 0\n")
        assert threading.active_count() < network.MOST_THREADS + 8
    Hanging.forever.set()


def test_munge_that_comes_back_is_used(tmp_path: Path) -> None:
    away = [True]

    class Coming(FakeMunge):
        def decode(self, credential: bytes) -> tuple[bytes, int]:
            if away[0]:
                raise MungeUnavailable("munge does not answer")
            return super().decode(credential)

    with opened(tmp_path, two_jobs(), Coming(DAEMON)) as here:
        with pytest.raises(DaemonUnreachable, match="the server says: munge does not answer"):
            whole_answer(here.server, LOGIN, ALL_JOBS)
        away[0] = False
        assert b"3 ann" in whole_answer(here.server, LOGIN, ALL_JOBS)


def test_the_door_moves_and_closes_as_the_daemon_says(small: Network) -> None:
    first, second = small.port, free_port()
    tell(small.paths.listen, f"127.0.0.1:{second}")
    small.wait_heard(f"listens on 127.0.0.1:{second}")
    small.port = second
    assert b"3 ann" in whole_answer(small.server, LOGIN, ALL_JOBS)
    tell(small.paths.listen, "")
    small.wait_heard("")
    for port in (first, second):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_an_address_that_cannot_be_used_is_complained_of_once_and_tried_again(
    small: Network, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        tell(small.paths.listen, address)
        complaint = f"cannot listen on {address} ([Errno 98] Address already in use)"
        for _ in range(2):
            small.wait_heard(f"{complaint}; mend reports.listen in the policy file")
    small.wait_heard(f"listens on {address}")
    assert capfd.readouterr().err.count("slurmfair serve: cannot listen on") == 1


# -- the client's side ---------------------------------------------------------------------------------


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[Server, list[bytes]]]:
    """Give a server that sends these bytes to one client after the other, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            for one in answers:
                sock, _ = listener.accept()
                with sock, sock.makefile("rb") as stream:
                    asked.append(stream.readline())
                    sock.sendall(one)

        thread = threading.Thread(target=run)
        thread.start()
        yield Server(f"{DAEMON}@127.0.0.1:{listener.getsockname()[1]}", "test"), asked
        thread.join(10)
        assert not thread.is_alive()


MARK = "feed"
THEIRS = FakeMunge(DAEMON)


@pytest.fixture
def known_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "new_mark", lambda: MARK)


def part(number: int, last: bool, mark: str = MARK, munge: FakeMunge = THEIRS) -> bytes:
    return sealed_part(munge, b"part %d." % number, ANN, mark, number, last)


def test_parts_in_order_are_taken(known_mark: None) -> None:
    with answering(part(0, False) + part(1, True)) as (server, asked):
        assert whole_answer(server, FakeMunge(ANN), ALL_JOBS) == b"part 0.part 1."
    assert opened_request(THEIRS, asked[0].rstrip(b"\n")) == (ALL_JOBS, ANN, MARK)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (part(0, False), "cut short"),
        (part(0, False) + b"MUNGE:", "is broken"),
        (part(1, True), "not one to this request"),
        (part(0, False) + part(2, True), "not one to this request"),
        (part(0, True, mark="beef"), "not one to this request"),
        (THEIRS.encode(b"slurmfair-tell-1 feed 0 perhaps\n", ANN) + b"\n", "not one to this request"),
        (part(0, True, munge=FakeMunge(DAEMON, "theirs")), "made with another key"),
        (sealed_part(THEIRS, b"", BOB, MARK, 0, True), "for somebody else"),
        (part(0, True, munge=FakeMunge(BOB)), f"comes from uid {BOB} and not from {DAEMON}; if slurmfaird runs"),
        (b"REFUSED because\x1b[2J\n", "the server says: because"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak as slurmfair does"),
    ],
)  # fmt: skip
def test_answers_that_are_forged_swapped_or_cut_are_not_believed(
    known_mark: None, answer: bytes, told: str
) -> None:
    with answering(answer) as (server, _), pytest.raises((DaemonUnreachable, NotAuthentic)) as caught:
        whole_answer(server, FakeMunge(ANN), ALL_JOBS)
    assert told in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_server_that_hangs_up_is_asked_again_with_another_credential() -> None:
    hang_up = answering(b"", b"", b"REFUSED at last\n")
    with hang_up as (server, asked), pytest.raises(DaemonUnreachable, match="at last"):
        whole_answer(server, FakeMunge(ANN), ALL_JOBS)
    assert len(set(asked)) == 3


def test_a_host_where_nobody_listens_is_named_with_where_its_name_came_from() -> None:
    server = Server(f"127.0.0.1:{free_port()}", "/etc/slurmfair/server")
    with pytest.raises(DaemonUnreachable, match=r"from /etc/slurmfair/server\): nobody answers .*refused"):
        whole_answer(server, LOGIN, ALL_JOBS)


def test_the_variable_wins_over_the_file_which_may_have_comments(tmp_path: Path) -> None:
    path = tmp_path / "server"
    assert named_server("", str(path)) is None
    path.write_text("# the host of slurmctld\n\n 995@ctl.site:6830  # by uid\n")
    server = named_server(" ", str(path))
    assert server is not None
    assert (server.host, server.port, server.account, server.trusted()) == ("ctl.site", 6830, "995", {0, 995})
    server = named_server("root@[::1]:7000", str(path))
    assert server is not None
    assert (server.host, server.port, server.trusted()) == ("::1", 7000, {0})
    assert Server("ctl:6830", "test").account == "slurmfair"
    assert Server("no-such-account@ctl:6830", "test").trusted() == {0}


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "ctl", "ctl:", ":6830", "ctl:http", "ctl:0", "c\x1btl:1", "a b:1"]
)
def test_a_file_that_names_no_server_is_told_with_the_form(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server"
    path.write_text(text)
    with pytest.raises(DaemonUnreachable, match=r"names no server .*write \[ACCOUNT@\]HOST:PORT into"):
        named_server("", str(path))


def test_without_libmunge_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "LIBRARY", "libno-such-munge.so.2")
    with pytest.raises(MungeUnavailable, match="install munge"):
        real.Munge()


# -- the reporter itself, with whatever munge there is here --------------------------------------------


def test_a_reporter_listens_where_the_daemon_says_and_a_crowd_there_takes_no_room_from_local_readers(
    tmp_path: Path,
) -> None:
    port = free_port()
    tell(tmp_path / "listen", f"127.0.0.1:{port}")
    with serving(tmp_path, two_jobs()) as reporter, ExitStack() as stack:
        here = Network(reporter.paths, Desk(reporter.paths), asyncio.new_event_loop(), port, [])
        stack.callback(here.loop.close)
        until_s = time.monotonic() + 20
        while "listens on" not in sfprio_status(reporter.paths):
            assert time.monotonic() < until_s
        before = reporter.descriptors()
        for _ in range(many_descriptors(stack)):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(
                ("127.0.0.1", port)
            )  # the kernel turns away whom the listen queue has no place for
        began_s = time.monotonic()
        assert sfprio(reporter, "-ho%i").stdout == "3\n4\n"
        assert time.monotonic() - began_s < 3
        assert here.said(ALL_JOBS).startswith(b"REFUSED not a munge credential")
        assert time.monotonic() - began_s < 15
        assert reporter.descriptors() < before + 1200


def many_descriptors(stack: ExitStack) -> int:
    """Return how many connections may be opened, 10,000 at most, until the stack ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 12_000) if hard != resource.RLIM_INFINITY else 12_000
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    return min(10_000, wanted - 500)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_an_address_of_either_kind_is_listened_on(host: str) -> None:
    if host == "[::1]" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this host has no IPv6")
    server = Server(f"{host}:{free_port()}", "test")
    with network.bound(f"{host}:{server.port}"):
        socket.create_connection((server.host, server.port), 10).close()


def sfprio_status(paths: Paths) -> str:
    """Return what `slurmfair status` prints."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(os.fspath(paths.socket))
        sock.sendall(b'{"command":["status"]}\n')
        with sock.makefile() as stream:
            return stream.read()


def test_on_a_host_without_socket_and_server_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURMFAIR_SERVER", raising=False)
    monkeypatch.setattr(remote, "FILE", str(tmp_path / "server"))
    with pytest.raises(DaemonUnreachable, match=r"SLURMFAIR_SERVER; on the host of slurmfaird see"):
        remote.answered(ALL_JOBS, str(tmp_path / "socket"))
