"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a sentence tells."""

    PLACE = "place"  # where in line
    WHY = "why"  # the rule and the numbers
    NEEDED = "needed"  # what has to happen
    SINCE = "since"
    NEXT = "next"  # what changes by itself, and when
    EXPECTED = "expected"  # Slurm's own estimate, or the plan's
    ADVICE = "advice"  # what the reader can do


@dataclass(frozen=True, slots=True)
class Sentence:
    kind: Kind
    text: str
    at_s: int = -1  # of NEXT and EXPECTED: when


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A need of so many nodes with so much of the pool's main resource free each, and what there is."""

    nodes: int
    each: int
    found: int  # usable nodes that have so much free, before what starts now has got its own
    usable: int  # nodes that it may use and that take jobs now


@dataclass(frozen=True, slots=True)
class Explanation:
    """One job explained. `code` names the situation for programs."""

    job_id: int
    name: str
    code: str
    headline: str
    sentences: tuple[Sentence, ...]
    waits_for: int = -1
    nodes: NodeRoom | None = None  # of a job that lacks room
