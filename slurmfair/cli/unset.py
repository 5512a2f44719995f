"""slurmfair unset: see settings."""

from __future__ import annotations

from functools import partial

from slurmfair.cli.settings import parse_as, reply_as

parse = partial(parse_as, "unset")
reply = partial(reply_as, "unset")
