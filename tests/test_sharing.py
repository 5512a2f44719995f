from __future__ import annotations

from slurmfair import sharing
from slurmfair.sharing import Answers


def read(answers: Answers, key: object) -> list[bytes]:
    """Read a known answer to its end."""
    answer = answers.find(key)
    assert answer is not None
    place, out = 0, []
    while True:
        if place < len(answer.pieces):
            out.append(answer.pieces[place])
            place = answer.taken(place)
        elif answer.done:
            return out
        else:
            answer.make_next()


def test_an_answer_is_made_once_for_all_who_ask() -> None:
    made: list[int] = []

    def pieces() -> object:
        for n in range(3):
            made.append(n)
            yield b"%d" % n

    answers = Answers()
    answers.add("key", pieces())  # type: ignore[arg-type]
    assert read(answers, "key") == read(answers, "key") == [b"0", b"1", b"2"]
    assert made == [0, 1, 2]


def test_without_a_key_nothing_is_kept() -> None:
    answers = Answers()
    answer = answers.add(None, iter([b"a", b"b"]))
    answer.make_next()
    assert answer.taken(0) == 0
    assert answer.pieces == []
    assert answers.find(None) is None


def test_only_a_few_unfinished_answers_are_kept() -> None:
    answers = Answers()
    kept = [answers.add(n, iter([b"x"])).shared for n in range(6)]
    assert kept == [True] * sharing.MOST_BEGUN + [False] * 2
    read(answers, 0)
    assert answers.add("later", iter([b"x"])).shared


def test_the_oldest_finished_answers_make_room() -> None:
    answers = Answers()
    size = sharing.MOST_KEPT // 3 + 1
    for n in range(3):
        answers.add(n, iter([bytes(size)]))
        read(answers, n)
    read(answers, 0)
    assert answers.add("new", iter([b"x"])).shared
    assert sorted(map(str, answers.known)) == ["0", "2", "new"]
