"""What a job needs of single nodes, and how many have it: counted by the daemon, told only where that count is whole."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from slurmfair.explain.case import COLUMN_OF, Case, admitted_now, counted, of
from slurmfair.explain.terms import Kind, NodeRoom, Sentence
from slurmfair.room import MAX_CLASSES


def node_room(case: Case) -> NodeRoom | None:
    """Return the need of nodes, None where the count would not be whole.

    Components of a heterogeneous job have needs of their own; past 64 kinds of nodes they are not told apart.
    """
    job, kinds = case.job, case.pool["nodes"]
    nodes = max(1, job["nodes"])
    each = ceil(job[COLUMN_OF[case.resource]] / nodes)
    if len(case.parts) > 1 or len(kinds) >= MAX_CLASSES or not job["node_classes"] or not each:
        return None
    free = [pair for n, kind in enumerate(kinds) if job["node_classes"] >> n & 1 for pair in kind["free"]]
    return NodeRoom(
        nodes=nodes,
        each=each,
        found=sum(count for units, count in free if units >= each),
        usable=sum(count for _, count in free),
    )


def on_nodes(case: Case) -> Iterator[Sentence]:
    """Yield how many nodes have what each must have."""
    room = node_room(case)
    if room is None or room.nodes == room.each == 1:
        return
    what = f"{of(room.each, case.resource)} free"
    wish = f"one node with {what}" if room.nodes == 1 else f"{room.nodes} nodes with {what} each"
    later = ", before the jobs that start now have got theirs" if admitted_now(case) else ""
    yield Sentence(Kind.WHY, f"It needs {wish}; {_having(room)}{later}.")


def on_what(case: Case) -> Sentence:
    """Return what has to happen where enough is free, but not on the right nodes."""
    room = node_room(case)
    if room and not room.usable:
        return Sentence(Kind.NEEDED, "Nodes that suit it must take jobs again.")
    return Sentence(Kind.NEEDED, "Running jobs must end on nodes that suit it.")


def _having(room: NodeRoom) -> str:
    if not room.usable:
        return "no node that it may use takes jobs now"
    among = f"the {counted(room.usable, 'node')} that it may use"
    if not room.found:
        return f"none of {among} has so many now"
    return f"{room.found} of {among} {'has' if room.found == 1 else 'have'} so many now"
