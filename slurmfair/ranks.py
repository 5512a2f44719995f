"""Ranks for a wanted order: which of the present ones stay, and what the others become.

Slurm's priority is the rank plus its own weighted factors minus the user's nice, at least 1 (SLURM.md 7).
So neighbours stand further apart than all own factors together, and the lowest rank is above them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmfair._core import longest_run
from slurmfair.config import Ranks
from slurmfair.model import Bools, Ints

LEAST_SPACING = 1000  # without own factors: a usual nice does not swap neighbours
SLIDES = 8  # windows of jobs that fit into the scale at the usual distance


@dataclass(frozen=True, slots=True)
class RankScale:
    """Where ranks may lie. `step` is the distance given where there is room, `spacing` the least one."""

    low: int
    high: int
    spacing: int
    step: int
    behind: int  # the most that a record outside the window may have

    @property
    def capacity(self) -> int:
        """How many different ranks there are."""
        return max(0, (self.high - self.low) // self.spacing + 1)


def rank_scale(ranks: Ranks, own_factors: int, window: int) -> RankScale:
    """Return the scale for a cluster whose PriorityWeight* settings add up to `own_factors`.

    A pinned priority replaces Slurm's own factors, so it needs no spacing against them; but records that
    nobody pinned stand at their own factors, and these are not above the window.
    """
    pinned = ranks.channel == "priority"
    spacing = LEAST_SPACING if pinned else max(LEAST_SPACING, own_factors + 1)
    low = own_factors + LEAST_SPACING + 1 if pinned else spacing + 1
    step = max(spacing, (ranks.high - low) // (SLIDES * max(window, 1)))
    return RankScale(low, ranks.high, spacing, step, behind=max(1, own_factors) if pinned else 1)


def looks_pinned(priority: Ints, site_factor: Ints, nice: Ints, own_factors: int) -> Bools:
    """Tell which unheld records stand at a priority that their site factor cannot give: somebody pinned them."""
    least = np.maximum(site_factor - nice, 1)
    pinned: Bools = (priority > 0) & ((priority < least) | (priority > least + own_factors + 1))
    return pinned


def spread(unit: Ints, rank: Ints, usable: Bools, n_units: int, scale: RankScale) -> tuple[Ints, int]:
    """Return a rank for every unit, falling, shape (n_units,), and how many records had to make room.

    `unit` (rising) and the present `rank` belong to the records, shape (n,); only `usable` ones can save
    a write by keeping theirs. As many of those as possible do: with k units between two that stay, the
    ranks of the two differ by at least (k + 1) spacings.
    """
    lifted = rank + unit * scale.spacing  # never rises along records that can all stay
    fits = usable & (lifted >= scale.low + (n_units - 1) * scale.spacing) & (lifted <= scale.high)
    kept = _longest(lifted, unit, fits)
    in_order = _longest(rank, unit, usable & (rank >= scale.low) & (rank <= scale.high))
    pressed = np.zeros(n_units, np.bool_)
    pressed[unit[in_order]] = True
    pressed[unit[kept]] = False
    if pressed.any():
        kept = kept[_roomy(unit[kept], rank[kept], np.flatnonzero(pressed), n_units, scale)]
    moved = np.zeros(len(unit), np.bool_)
    moved[in_order] = True
    moved[kept] = False
    return _filled(unit[kept], rank[kept], n_units, scale), int(np.count_nonzero(moved))


def _longest(value: Ints, unit: Ints, usable: Bools) -> Ints:
    """Return the rows of one longest run of values that never rises, at most one value a unit."""
    row = np.flatnonzero(usable)
    row = row[np.lexsort((value[row], unit[row]))]  # two values of one unit rise, so only one can stay
    kept = np.zeros(len(row), np.uint8)
    longest_run(value[row], np.empty(len(row), np.int64), np.empty(len(row), np.int64), kept)
    return row[kept.view(np.bool_)]


def _roomy(unit: Ints, rank: Ints, crowded: Ints, n_units: int, scale: RankScale) -> Bools:
    """Mark the records that still stay once there is room around the `crowded` units, shape (n,).

    A stretch that must be renumbered grows, by as little as possible, until its k units stand at least k
    spacings apart, or at the usual distance where it has reached an end of the scale: else the next
    arrival at the same spot would have to renumber it again.
    """
    at, first = np.unique(np.concatenate(([-1], unit, [n_units])), return_index=True)
    known = np.concatenate(([scale.high + scale.spacing], rank, [scale.low - scale.spacing]))[first]
    for number in crowded:
        above = int(np.searchsorted(at, number)) - 1
        start, end = _stretch(at, known, above, scale)
        at, known = np.delete(at, slice(start + 1, end)), np.delete(known, slice(start + 1, end))
    return np.isin(unit, at)


def _stretch(at: Ints, known: Ints, above: int, scale: RankScale) -> tuple[int, int]:
    """Return the ends of the smallest roomy stretch around the gap below anchor `above`; of equals, the roomiest."""
    last = len(at) - 1
    for size in range(1, last + 1):
        start = np.arange(max(0, above + 1 - size), min(above, last - size) + 1)
        length = at[start + size] - at[start]
        at_an_end = (start == 0) | (start + size == last)
        least = np.where(at_an_end, scale.step, np.minimum(length * scale.spacing, scale.step))
        room = (known[start] - known[start + size]) / length / least
        best = int(room.argmax())
        if room[best] >= 1 or size == last:
            break
    return int(start[best]), int(start[best]) + size


def _filled(unit: Ints, rank: Ints, n_units: int, scale: RankScale) -> Ints:
    """Return all units' ranks: given ones stay, the gaps between them are divided evenly, the ends by steps."""
    top, bottom = _ends(unit, rank, n_units, scale)
    at = np.concatenate(([-1], unit, [n_units]))
    known = np.concatenate(([top], rank, [bottom]))
    wanted = np.arange(n_units, dtype=np.int64)
    above = np.searchsorted(at, wanted, side="right") - 1
    a, b = at[above], at[above + 1]
    ranks: Ints = known[above] - (known[above] - known[above + 1]) * (wanted - a) // (b - a)
    return ranks


def _ends(unit: Ints, rank: Ints, n_units: int, scale: RankScale) -> tuple[int, int]:
    """Return the ranks just above the first and just below the last unit, which nobody gets."""
    highest, lowest = scale.high + scale.spacing, scale.low - scale.spacing
    if len(unit):
        top = min(int(rank[0]) + scale.step * (int(unit[0]) + 1), highest)
        return top, max(int(rank[-1]) - scale.step * (n_units - int(unit[-1])), lowest)
    length = min(scale.step * (n_units + 1), highest - lowest)
    top = highest - (highest - lowest - length) // 4  # most jobs arrive at the lower end
    return top, top - length
