"""Where the reporter's answers are made: the newest view, what the caller may see of it, and the text."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slurmfair import reports
from slurmfair import view as views
from slurmfair.cli import commands
from slurmfair.cli.terms import Asked, Reply
from slurmfair.cli.text import words
from slurmfair.client import full_name
from slurmfair.decisions import newest
from slurmfair.errors import SlurmfairError
from slurmfair.model import FOREVER_S
from slurmfair.paths import Paths
from slurmfair.record import samples
from slurmfair.reports import Caller
from slurmfair.sharing import Answer, Answers
from slurmfair.view import View

NOT_UNDERSTOOD = "request not understood; ask with sfprio, sfshare or slurmfair of this release"
NAME_KEPT_S = 600.0
MOST_NAMES = 10_000
STALE_CYCLES, STALE_S = 5, 60.0  # data older than this many cycles, and than this, are called old
Mark = tuple[int, int]
T = TypeVar("T")


@dataclass(slots=True)
class Desk:
    paths: Paths
    view: View | None = None
    mark: Mark = (0, 0)  # inode and time of the file the view came from
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    names: dict[int, tuple[str, float]] = field(default_factory=dict)
    turns: dict[int, asyncio.Lock] = field(default_factory=dict)
    answers: Answers = field(default_factory=Answers)
    parts: dict[int, View] = field(default_factory=dict)  # what each uid may see of the present view
    network: str = ""  # how it is with the door to the network, "" where none is wanted

    def say_network(self, text: str) -> None:
        self.network = text

    async def answer(self, line: bytes, uid: int) -> AsyncIterator[bytes]:
        """Return the answer to a request in pieces; one that cannot be served is told why."""
        request = _request(line)
        if request is None:
            yield json.dumps({"error": NOT_UNDERSTOOD}).encode() + b"\n"
        elif "command" in request:
            async for frame in self._frames(request, uid):
                yield frame
        else:
            async for piece in self._report(request, uid):
                yield piece

    async def _report(self, request: Mapping[str, Any], uid: int) -> AsyncIterator[bytes]:
        try:
            view, _ = await self._seen_by(uid)
            if read := FROM_DISK.get(str(request.get("report"))):
                rows = await asyncio.to_thread(read, self.paths, request)
                request = {**request, "rows": rows}
            pieces = reports.answer(view, request, _age_s(view), away(view))
            async for piece in self._pieces(uid, Answer(piece.encode() for piece in pieces)):
                yield piece
        except SlurmfairError as err:
            yield json.dumps({"error": str(err)}).encode() + b"\n"

    async def _frames(self, request: Mapping[str, Any], uid: int) -> AsyncIterator[bytes]:
        command, *argv = request["command"]
        try:
            view, caller = await self._seen_by(uid)
        except SlurmfairError as err:
            for frame in _framed(Reply(err=f"{full_name(command)}: error: {err}\n", code=1)):
                yield frame
            return
        old = away(view)
        key = None if old else _key(request, view, uid)
        answer = self.answers.find(key)
        if answer is None:
            asked = Asked(
                argv=argv,
                view=view,
                caller=caller,
                paths=self.paths,
                age_s=_age_s(view),
                away=old,
                environment=request["environment"],
                terminal=request["terminal"],
                width=request["width"],
                network=self.network,
            )
            reply = await self._replied(uid, command, asked)
            answer = self.answers.add(key if reply.shared else None, _framed(reply))
        async for frame in self._pieces(uid, answer):
            yield frame

    async def _replied(self, uid: int, command: str, asked: Asked) -> Reply:
        """Return the reply; a command that writes to disk gets a thread, so that nobody waits for the disk."""
        if command in commands.ON_DISK:
            return await asyncio.to_thread(commands.answer, command, asked)
        return await self._in_turn(uid, lambda: commands.answer(command, asked))

    async def _pieces(self, uid: int, answer: Answer) -> AsyncIterator[bytes]:
        place = 0
        while True:
            if place < len(answer.pieces):
                yield answer.pieces[place]
                place = answer.taken(place)
                await asyncio.sleep(0)
            elif answer.done:
                return
            else:
                await self._in_turn(uid, answer.make_next)

    async def _in_turn(self, uid: int, work: Callable[[], T]) -> T:
        """Do a small piece of work. Between two pieces for one user everybody else gets one done."""
        if len(self.turns) >= MOST_NAMES:
            self.turns = {known: turn for known, turn in self.turns.items() if turn.locked()}
        async with self.turns.setdefault(uid, asyncio.Lock()):
            done = work()
            await asyncio.sleep(0)
            return done

    async def _seen_by(self, uid: int) -> tuple[View, Caller]:
        view = await self._newest()
        caller = Caller(uid, await self._name(uid))
        if caller.sees_all(view):
            return view, caller
        if uid not in self.parts:
            self.parts[uid] = reports.visible(view, caller)
        return self.parts[uid], caller

    async def _newest(self) -> View:
        """Return the newest view; its file is read again only when it was replaced, and by one reader."""
        mark = _mark(self.paths)
        if self.view is not None and (mark in (self.mark, (0, 0)) or self.reading.locked()):
            return self.view
        async with self.reading:
            if self.view is None or mark != self.mark:
                self.view = await asyncio.to_thread(views.load, self.paths.view)
                self.mark, self.parts = mark, {}
                self.answers.clear()
            return self.view

    async def _name(self, uid: int) -> str:
        """Return a user's name; asking for it may take long, so it is kept for a while."""
        name, until_s = self.names.get(uid, ("", 0.0))
        if time.monotonic() < until_s:
            return name
        if len(self.names) >= MOST_NAMES:
            self.names.clear()
        name = await asyncio.to_thread(_name_of, uid)
        self.names[uid] = (name, time.monotonic() + NAME_KEPT_S)
        return name


def _decisions(paths: Paths, request: Mapping[str, Any]) -> list[Any]:
    return list(newest(paths.database, _whole(request.get("n"), 20)))


def _history(paths: Paths, request: Mapping[str, Any]) -> list[Any]:
    since_s = _whole(request.get("since_s"), 0)
    return samples(
        paths.record, str(request.get("pool", "")), str(request.get("quota", "")), since_s, FOREVER_S
    )


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= FOREVER_S else default


FROM_DISK = {"decisions": _decisions, "history": _history}  # read in a thread: nobody waits for the disk


def _request(line: bytes) -> dict[str, Any] | None:
    """Return a request of the right shape, None for anything else."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    if "command" in request:
        return _command(request)
    columns = request.get("columns")
    return request if columns is None or _texts(columns) else None


def _command(request: dict[str, Any]) -> dict[str, Any] | None:
    command, environment = request["command"], request.get("environment", {})
    width = request.get("width", 0)
    if not (_texts(command) and command and isinstance(environment, dict) and _texts(environment.values())):
        return None
    if not isinstance(width, int):
        return None
    terminal = request.get("terminal") is True
    return {"command": command, "environment": environment, "terminal": terminal, "width": width}


def _texts(values: Iterable[Any]) -> bool:
    return not isinstance(values, (str, int, float)) and all(isinstance(value, str) for value in values)


def _key(request: Mapping[str, Any], view: View, uid: int) -> Hashable:
    """Return what the text of an answer depends on: the part of the view that is seen, who asks, and how."""
    environment = tuple(sorted(request["environment"].items()))
    who = 0 if request["command"][0] == "sfprio" else uid
    return id(view), who, tuple(request["command"]), environment, request["terminal"], request["width"]


def _framed(reply: Reply) -> Iterator[bytes]:
    """Yield the frames of a reply."""
    if reply.err:
        yield _frame(b"e", reply.err)
    for piece in reply.out:
        if piece:
            yield _frame(b"o", piece)
    yield b"x %d\n" % reply.code


def _frame(kind: bytes, text: str) -> bytes:
    body = text.encode("utf-8", "replace")
    return b"%s %d\n%s" % (kind, len(body), body)


def _mark(paths: Paths) -> Mark:
    try:
        found = os.stat(paths.view)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""


def _age_s(view: View) -> float:
    return max(0.0, time.time() - float(view.about["now_s"]))


def away(view: View) -> str:
    """Return why the data are old, "" while the daemon decides as usual."""
    about, age_s = view.about, _age_s(view)
    old = f"these data are {words(age_s)} old"
    if not _runs(int(about.get("pid", 0))):
        return f"slurmfaird is not running, {old}; start it: systemctl start slurmfaird"
    if age_s > max(STALE_S, STALE_CYCLES * float(about.get("interval_s", 10.0))):
        return f"slurmfaird has decided nothing since, {old}; see why: journalctl -u slurmfaird"
    return ""


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return pid > 0
