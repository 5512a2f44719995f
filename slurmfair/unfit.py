"""Jobs that can never fit, in a quota whose policy has them cancelled (`on_never_fit: cancel`).

A job cannot be brought back, and a limit or a cluster's configuration may be wrong for a moment. So one is
cancelled only after it was found unfit in every pass of a row of cycles, and while we held it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair.model import Bools, Ints

SURE_AFTER = 6  # intervals between cycles


@dataclass(frozen=True, slots=True)
class Unfit:
    """Entries of one pool that the last pass wanted gone, ids ascending, and since when every pass did, shape (n,).

    It is not kept in the state file: after a restart the row begins anew.
    """

    entry_id: Ints
    since_s: Ints


def nothing_unfit() -> Unfit:
    empty = np.zeros(0, dtype=np.int64)
    return Unfit(empty, empty)


def found_unfit(before: Unfit, entry_id: Ints, now_s: int) -> Unfit:
    """Return the memory after a pass that wants the entries of these ids gone, in any order."""
    entry_id = np.sort(entry_id)
    since_s = np.full(len(entry_id), now_s, dtype=np.int64)
    place = np.searchsorted(before.entry_id, entry_id)
    again = place < len(before.entry_id)
    again[again] = before.entry_id[place[again]] == entry_id[again]
    since_s[again] = np.minimum(before.since_s[place[again]], now_s)
    return Unfit(entry_id, since_s)


def to_cancel(unfit: Unfit, entry_id: Ints, interval_s: float, now_s: int) -> Bools:
    """Return which of these entries were found unfit long enough, shape (n,)."""
    sure = now_s - unfit.since_s >= SURE_AFTER * interval_s
    return np.isin(entry_id, unfit.entry_id[sure])
