"""A munge in memory: credentials that tell who made them and open once, for the right user, under the right key."""

from __future__ import annotations

import base64
import itertools
import json
from dataclasses import dataclass, field, replace
from typing import Self

from slurmfair.errors import NotAuthentic

NUMBERS = itertools.count()


@dataclass(frozen=True)
class FakeMunge:
    """The munge of one host as one user has it; users of a host share `used`."""

    uid: int
    key: str = "ours"
    used: set[int] = field(default_factory=set)

    def of(self, uid: int) -> Self:
        """Return what another user of this host has."""
        return replace(self, uid=uid)

    def encode(self, payload: bytes, only_uid: int | None = None) -> bytes:
        text = base64.b64encode(payload).decode()
        made = {"uid": self.uid, "only": only_uid, "key": self.key, "number": next(NUMBERS), "payload": text}
        return b"MUNGE:" + base64.b64encode(json.dumps(made).encode()) + b":"

    def decode(self, credential: bytes) -> tuple[bytes, int]:
        try:
            made = json.loads(
                base64.b64decode(credential.removeprefix(b"MUNGE:").removesuffix(b":"), validate=True)
            )
        except ValueError as err:
            raise NotAuthentic("the munge credential is broken") from err
        if made["key"] != self.key:
            raise NotAuthentic("the munge credential was made with another key")
        if made["only"] not in (None, self.uid):
            raise NotAuthentic("the munge credential is for somebody else")
        if made["number"] in self.used:
            raise NotAuthentic("the munge credential has been used before")
        self.used.add(made["number"])
        return base64.b64decode(made["payload"]), made["uid"]
