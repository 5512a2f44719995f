"""Answers that several readers get: made once, piece by piece, by whoever needs the next piece first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

MOST_KEPT = 64 << 20  # bytes of finished answers
MOST_BEGUN = 4  # unfinished ones that are kept as they grow


@dataclass(slots=True)
class Answer:
    """Pieces of an answer. One that nobody shares forgets each piece once it was taken."""

    source: Iterator[bytes]
    shared: bool = False
    pieces: list[bytes] = field(default_factory=list)
    done: bool = False

    def size(self) -> int:
        return sum(map(len, self.pieces))

    def make_next(self) -> None:
        """Make one more piece, or find that there is none."""
        piece = next(self.source, None)
        if piece is None:
            self.done = True
        else:
            self.pieces.append(piece)

    def taken(self, place: int) -> int:
        """Return where the reader of a piece goes on."""
        if self.shared:
            return place + 1
        del self.pieces[place]
        return place


@dataclass(slots=True)
class Answers:
    """Answers from one view by what was asked; the oldest finished ones go when there is no room."""

    known: OrderedDict[Hashable, Answer] = field(default_factory=OrderedDict)

    def find(self, key: Hashable) -> Answer | None:
        if key is None or key not in self.known:
            return None
        self.known.move_to_end(key)
        return self.known[key]

    def add(self, key: Hashable, source: Iterator[bytes]) -> Answer:
        """Return a new answer, kept for others if there is a key and room for it."""
        answer = Answer(source)
        if key is not None and self._make_room():
            answer.shared = True
            self.known[key] = answer
        return answer

    def _make_room(self) -> bool:
        begun = sum(not answer.done for answer in self.known.values())
        kept = sum(answer.size() for answer in self.known.values())
        for key, answer in list(self.known.items()):
            if kept <= MOST_KEPT:
                break
            if answer.done:
                kept -= answer.size()
                del self.known[key]
        return begun < MOST_BEGUN and kept <= MOST_KEPT

    def clear(self) -> None:
        self.known.clear()
