"""Reports on a host without the daemon's socket, as login nodes are: over the network, with a real munge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from subprocess import CompletedProcess

import pytest

from tests.live.policies import gpu_pool, quota
from tests.live.site import RUN, STATE, Site

PORT = 6830  # in the lab's own network namespace
SERVER = f"127.0.0.1:{PORT}"
POLICY = gpu_pool(
    quota("vision", deserved=8, limit=12, policy="fifo"),
    quota("pretrain", "llm-pretrain", deserved=8, policy="intelligent"),
    quota("speech", deserved=8, policy="balance"),
    top=('reports: {listen: "LISTEN"}',),
)
NOWHERE = {"RUNTIME_DIRECTORY": "/nonexistent"}
AWAY = NOWHERE | {"SLURMFAIR_SERVER": SERVER}  # what makes a process in the lab one on a login node
REQUEST = '{"command":["sfprio","-h","-o","%i %u"]}'
# Sends each line of stdin as a request of its own and prints the first line of each answer.
SEND = """
import socket, sys
for line in sys.stdin.buffer:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30) as sock:
        sock.sendall(line)
        sock.shutdown(socket.SHUT_WR)
        print(sock.makefile("rb").readline().decode(errors="replace").rstrip(chr(10)))
"""
FOREIGN = "/run/other-munge"


@dataclass(frozen=True)
class LoginNode:
    """A site that listens, with jobs of ann, bob, cid and eve, and processes that see no socket."""

    site: Site
    blocked: int  # a job of ann at the head of its queue
    behind: int  # bob's job behind it

    def run(self, *argv: str, user: str = "ann", env: dict[str, str] | None = None) -> CompletedProcess[str]:
        return self.site.lab.run(list(argv), user=user, check=False, env=env or AWAY)

    def told(self, *argv: str, user: str = "ann") -> str:
        """Return what a command prints there; it must succeed without a word on stderr."""
        done = self.run(*argv, user=user)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def credential(self, *options: str, user: str = "ann", request: str = REQUEST) -> str:
        """Return a request as munge's own command seals it."""
        payload = f"slurmfair-ask-1 a1\n{request}\n"
        return self.site.lab.run(["munge", *options], user=user, input=payload).stdout.strip()

    def send(self, *lines: str) -> list[str]:
        """Return the beginning of each answer."""
        text = "".join(line + "\n" for line in lines)
        done = self.site.lab.run(["python3", "-c", SEND, str(PORT)], user="finn", input=text)
        return done.stdout.splitlines()

    def listens(self, site_says: str = f"listens on {SERVER}") -> bool:
        return site_says in self.site.lab.run(["slurmfair", "status"], check=False).stdout


@pytest.fixture(scope="module")
def node(lab: object) -> Iterator[LoginNode]:
    site = Site(lab)  # type: ignore[arg-type]
    site.fresh()
    site.write_policy(POLICY.replace("LISTEN", SERVER))
    site.submit_many([["--gpus=h100:8", "-N1", f"--nodelist=gpu0{n}"] for n in (1, 2)], user="cid")
    site.submit("--gpus=h100:8", "-N1", "--nodelist=gpu03", user="eve")
    site.submit("--gpus=h100:4", "-N1", "--nodelist=gpu04", user="eve")
    site.wait(lambda: len(site.running(site.jobs())) == 4, "the nodes are full")
    blocked = site.submit("--gpus=h100:8", "-N1")
    behind = site.submit("--gpus=h100:1", user="bob")
    site.submit("--gpus=h100:8", "-N1", user="eve")
    site.start()
    one = LoginNode(site, blocked, behind)
    site.wait(one.listens, "the reporter listens")
    site.wait_cycles(2)
    yield one
    site.stop()


@pytest.mark.parametrize(
    "argv",
    [
        ["sfprio", "-o", "%i %u %q %e %x %z %k"],
        ["sfprio", "-l"],
        ["sfshare", "-a", "-P", "-o", "Quota,User,Deserved,Allocated,FairShare,Pending"],
        ["slurmfair", "explain", "BEHIND"],
        ["slurmfair", "history", "--all", "--csv"],
        ["sfprio", "--help"],
    ],
    ids=" ".join,
)
def test_an_answer_is_the_same_there_and_here(node: LoginNode, argv: list[str]) -> None:
    argv = [str(node.behind) if word == "BEHIND" else word for word in argv]

    def steady(text: str) -> str:
        return re.sub(r"\d+ (s|min)\b|\d\d:\d\d(:\d\d)?", "TIME", text)  # a cycle may lie between the two

    def same() -> bool:
        here = node.site.report(*argv, user="ann")
        return bool(here) and steady(here) == steady(node.told(*argv))

    node.site.wait(same, "the two answers are alike", 20)


def test_what_is_said_there_is_true(node: LoginNode) -> None:
    assert f"{node.blocked} ann" in node.told("sfprio", "-h", "-o", "%i %u")
    told = node.told("slurmfair", "explain", str(node.behind), user="bob")
    assert "Under FIFO a job that cannot start stops everybody behind it" in told
    assert f"Network     listens on {SERVER}" in node.run("slurmfair", "status").stdout
    body = json.loads(node.told("sfprio", "--json"))
    assert {job["user_name"] for job in body["jobs"]} == {"ann", "bob", "eve"}


def test_an_answer_longer_than_munge_carries_at_once_arrives_whole(node: LoginNode) -> None:
    form = "%.1000i" * 500
    there = node.told("sfprio", "-h", "-o", form)
    assert len(there) >= 1_500_000
    assert there == node.site.report("sfprio", "-h", "-o", form)


def test_the_server_may_stand_in_a_file_with_the_uid_of_the_daemons_account(node: LoginNode) -> None:
    uid, _ = node.site.lab.ids("slurmfair")
    path = node.site.lab.path("/etc/slurmfair/server")
    path.write_text(f"# the host of slurmctld\n{uid}@{SERVER}\n")
    try:
        assert f"{node.blocked} ann" in node.run("sfprio", "-ho", "%i %u", env=NOWHERE).stdout
        path.write_text(f"bob@{SERVER}\n")
        done = node.run("sfprio", env=NOWHERE)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"comes from uid {uid} and not from bob; if slurmfaird runs as uid {uid}, name" in done.stderr
    finally:
        path.unlink()


def test_without_a_socket_and_a_server_the_message_says_what_to_do(node: LoginNode) -> None:
    done = node.run("sfprio", env=NOWHERE)
    assert (done.returncode, done.stdout) == (1, "")
    assert "write [ACCOUNT@]HOST:PORT into /etc/slurmfair/server" in done.stderr
    for server, told in (("127.0.0.1:9", "Connection refused"), ("nonsense", "names no server")):
        done = node.run("slurmfair", "history", "vision", env=NOWHERE | {"SLURMFAIR_SERVER": server})
        assert done.returncode == 1
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_the_local_socket_comes_first(node: LoginNode) -> None:
    done = node.run("sfprio", "-h", env={"SLURMFAIR_SERVER": "127.0.0.1:9"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_credential_is_good_once_for_us_and_in_its_time(node: LoginNode) -> None:
    good = node.credential()
    first, second = node.send(good, good)
    assert first.startswith("MUNGE:")
    assert "has been used before" in second
    finn = node.site.lab.run(["unmunge", "--no-output"], user="finn", input=first, check=False)
    assert "Unauthorized" in finn.stdout + finn.stderr, "the answer opens for ann alone"
    short = node.credential("--ttl=1")
    theirs = node.credential("--restrict-uid=root")
    other = node.site.lab.run(["munge", "--string", REQUEST], user="ann").stdout.strip()
    broken = good[:40] + ("A" if good[40] != "A" else "B") + good[41:]
    told = node.send(theirs, other, broken, "MUNGE:", "x" * 300_000, REQUEST)
    assert "is for somebody else" in told[0]
    assert "asks something else" in told[1]
    assert all(line.startswith("REFUSED the munge credential ") for line in told[2:4]), told
    assert "not a munge credential" in told[5]
    node.site.wait(lambda: "has expired" in node.send(short)[0], "too late", 10)
    assert node.told("sfprio", "-h")


def test_a_credential_of_another_cluster_is_refused(node: LoginNode) -> None:
    lab = node.site.lab
    lab.run(["install", "-d", "-m", "711", FOREIGN])
    lab.run(["dd", "if=/dev/urandom", f"of={FOREIGN}/key", "bs=1024", "count=1", "status=none"])
    lab.run(["chmod", "400", f"{FOREIGN}/key"])
    files = [f"--{name}-file={FOREIGN}/{name}" for name in ("key", "pid", "log", "seed")]
    socket = f"--socket={FOREIGN}/socket"
    munged = lab.popen(["munged", "--foreground", "--force", socket, *files])
    try:
        node.site.wait(
            lambda: lab.run(["munge", socket, "--no-input"], check=False).returncode == 0, "it answers"
        )
        told = node.send(node.credential(socket), node.credential(socket, user="root"), node.credential())
    finally:
        munged.terminate()
        munged.wait(timeout=10)
    assert all("was made with another key" in line for line in told[:2])
    assert told[2].startswith("MUNGE:")


def test_private_data_are_private_there_too(node: LoginNode) -> None:
    site = node.site
    site.lab.set_conf({"PrivateData": "jobs"})
    try:
        site.stop()
        site.start()
        site.wait(node.listens, "the new reporter listens")
        assert set(node.told("sfprio", "-h", "-o", "%u", user="bob").split()) == {"bob"}
        assert "(ann" not in node.told("slurmfair", "explain", str(node.behind), user="bob")
        there = node.told("sfprio", "--json", user="bob")
        for hidden in ("ann", "eve", str(node.blocked)):
            assert f'"{hidden}"' not in there
        for sees_all in ("root", "slurmfair"):
            assert {"ann", "bob", "eve"} == set(node.told("sfprio", "-ho%u", user=sees_all).split())
    finally:
        site.lab.set_conf({"PrivateData": None})
        site.stop()
        site.start()
        site.wait(node.listens, "listens again")


def test_settings_are_changed_from_there_by_administrators_alone(node: LoginNode) -> None:
    refused = node.run("slurmfair", "set", "gpu", "vision.limit=10")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "user ann may not change settings" in refused.stderr
    assert "is set" in node.told("slurmfair", "set", "gpu", "vision.limit=10", user="root")
    try:
        node.site.wait(
            lambda: (
                "vision may hold 10 GPUs" in node.told("slurmfair", "explain", str(node.blocked))
                or "gpu quotas.vision.limit=10" in node.site.report("slurmfair", "status")
            ),
            "taken up",
        )
    finally:
        assert "as the policy file says" in node.told(
            "slurmfair", "unset", "gpu", "vision.limit", user="root"
        )


def test_a_munge_that_is_away_or_hangs_is_told_and_local_readers_do_not_notice(node: LoginNode) -> None:
    lab = node.site.lab
    ready = node.credential()
    pid = lab.service_pid("munged")
    lab.run(["kill", "-STOP", str(pid)])
    try:
        (told,) = node.send(ready)
        assert "munge" in told and told.startswith("REFUSED")
        assert lab.run(["sfprio", "-h"], user="ann", timeout=5).stdout
    finally:
        lab.run(["kill", "-CONT", str(pid)])
    lab.stop_service("munged")
    try:
        done = node.run("sfprio")
        assert (done.returncode, done.stdout) == (1, "")
        assert "munge does not answer" in done.stderr
        assert "systemctl status munge" in done.stderr
        assert lab.run(["sfprio", "-h"], user="ann", check=False, timeout=5).stdout
    finally:
        lab.start_service("munged")
    node.site.wait(lambda: node.run("sfprio", "-h").returncode == 0, "answered again")


def test_the_door_follows_the_policy_and_outlives_the_daemon(node: LoginNode) -> None:
    site = node.site
    standby = site.lab.popen(["slurmfair", "serve", STATE, RUN], user="slurmfair")
    try:
        site.reload(POLICY.replace("LISTEN", f"127.0.0.1:{PORT + 1}"))
        site.wait(lambda: node.listens(f"listens on 127.0.0.1:{PORT + 1}"), "moved")
        assert node.run("sfprio").returncode == 1
        moved = AWAY | {"SLURMFAIR_SERVER": f"127.0.0.1:{PORT + 1}"}
        assert node.run("sfprio", env=moved).returncode == 0
        site.reload(POLICY.replace("LISTEN", "off"))
        site.wait(lambda: not node.listens("Network"), "closed")
        assert "Connection refused" in node.run("sfprio", env=moved).stderr
        site.reload(POLICY.replace("LISTEN", SERVER))
        site.wait(node.listens, "open again")
        site.stop()
        site.wait(node.listens, "the other reporter took over")
        done = node.run("sfprio", "-h", "-o", "%u")
        assert done.returncode == 1
        assert "ann" in done.stdout
        assert "slurmfaird is not running" in done.stderr
        site.start()
        site.wait_cycles(1)
        assert node.run("sfprio").returncode == 0
    finally:
        standby.terminate()
        standby.wait(timeout=20)
    site.wait(node.listens, "the daemon's own reporter took over")
