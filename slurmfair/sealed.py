"""Requests and answers inside munge credentials, so that nobody can swap, repeat or read them on their way.

A request is one credential. An answer is a few, each for the asking user alone; each repeats the mark that he
gave his request and counts, so that no part of another answer can pass for one of this.
"""

from __future__ import annotations

import os

from slurmfair.errors import NotAuthentic

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Protocol

    class Munge(Protocol):
        """munge.Munge, or one of a test's own."""

        def encode(self, payload: bytes, only_uid: int | None = None) -> bytes: ...
        def decode(self, credential: bytes) -> tuple[bytes, int]: ...


BEGIN = b"MUNGE:"
REFUSED = b"REFUSED "  # begins a line in clear: why there is no answer
PART = 64 * 1024  # bytes of an answer in one credential: munged seals or opens it in less than a millisecond
LONGEST_LINE = 2 * PART  # a credential is a third longer than what it carries
ASK, TELL = b"slurmfair-ask-1", b"slurmfair-tell-1"
MORE, LAST = b"more", b"last"


def new_mark() -> str:
    """Return a mark that no other request has."""
    return os.urandom(16).hex()


def sealed_request(munge: Munge, request: bytes, mark: str) -> bytes:
    return munge.encode(b"%s %s\n%s" % (ASK, mark.encode(), request))


def opened_request(munge: Munge, credential: bytes) -> tuple[bytes, int, str]:
    """Return a request, who asks, and his mark.

    Raises:
        NotAuthentic: it proves nothing, or does not ask us.
        MungeUnavailable: munge cannot say.
    """
    payload, uid = munge.decode(credential)
    head, _, request = payload.partition(b"\n")
    what, _, mark = head.partition(b" ")
    if what != ASK or not mark.isalnum() or len(mark) > 64:
        raise NotAuthentic("the munge credential asks something else; ask with commands of this release")
    return request, uid, mark.decode("ascii", "replace")


def sealed_part(munge: Munge, body: bytes, uid: int, mark: str, number: int, last: bool) -> bytes:
    """Return a part of an answer that only this user can open, as a line."""
    head = b"%s %s %d %s\n" % (TELL, mark.encode(), number, LAST if last else MORE)
    return munge.encode(head + body, uid) + b"\n"


def opened_part(
    munge: Munge, line: bytes, mark: str, number: int, trusted: Container[int]
) -> tuple[bytes, bool]:
    """Return a part of an answer, and whether it is the last.

    Raises:
        NotAuthentic: it does not come from one of the trusted uids, or is not this part of this answer.
        MungeUnavailable: munge cannot say.
    """
    payload, uid = munge.decode(line.rstrip(b"\n"))
    if uid not in trusted:
        raise Untrusted(uid)
    head, _, body = payload.partition(b"\n")
    for end in (MORE, LAST):
        if head == b"%s %s %d %s" % (TELL, mark.encode(), number, end):
            return body, end == LAST
    raise NotAuthentic("the answer is not one to this request; try again")


class Untrusted(NotAuthentic):
    """The answer comes from an account that does not run the daemon."""

    def __init__(self, uid: int) -> None:
        super().__init__(f"the answer comes from uid {uid}")
        self.uid = uid
