"""slurmfair set: see settings."""

from __future__ import annotations

from functools import partial

from slurmfair.cli.settings import parse_as, reply_as

parse = partial(parse_as, "set")
reply = partial(reply_as, "set")
