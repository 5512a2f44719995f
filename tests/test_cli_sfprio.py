from __future__ import annotations

import json

import pytest
import yaml

from slurmfair.cli.prio import parser
from slurmfair.model import FOREVER_S, Outcome
from slurmfair.standing import Standing
from slurmfair.view import View
from tests import golden
from tests.asking import BOB, ROOT, ask
from tests.views import NOW_S, job, many, quota, running, view


@pytest.fixture
def queue() -> View:
    """A record of every kind."""
    return view(
        [
            job(3, user="bob", outcome=Outcome.STARTS, base=9, effective=9.0, first_attempt_s=-1, gpus=8),
            job(7, array_id=7, task_list="2-9%2", place=2, position=2, account="a-very-long-account"),
            job(8, het_id=8, het_offset=0, user="cid", quota="llm.pretrain", place=3, reserved=1),
            job(9, het_id=8, het_offset=1, user="cid", quota="llm.pretrain", place=4, time_limit_s=FOREVER_S),
            job(21, base=3, effective=5.0, waiting_s=NOW_S - 100000, place=5, position=3),
            job(
                22,
                standing=Standing.HELD,
                outcome=Outcome.BEHIND,
                blocker=21,
                place=0,
                position=4,
                priority=0,
            ),
            job(23, standing=Standing.HELD, outcome=Outcome.PARKED, place=0, position=0, priority=0),
            job(24, standing=Standing.GATED, outcome=Outcome.HELD_BACK, blocker=8, place=0, priority=0),
            job(
                25,
                standing=Standing.FOREIGN_HOLD,
                outcome=-1,
                reason="JobHeldUser",
                place=0,
                position=0,
                priority=0,
            ),
            job(26, standing=Standing.INELIGIBLE, outcome=-1, reason="Dependency", waiting_s=-1, order_s=-1),
            job(27, quota="", policy="", outcome=-1, reason="Priority", name="größe名前\x1b[2J"),
            running(10, array_id=7, array_task=0),
            running(30, user="dora"),
        ],
        [
            quota("vision", allocated=9.0, ratio=1.125, entitled=False),
            quota("llm"),
            quota("llm.pretrain", priority=200),
        ],
    )


FORMATS = {
    "short": (),
    "long": ("-l",),
    "norm": ("-n",),
    "weights": ("-w",),
    "weights_long": ("-w", "-l"),
    "noheader": ("-h",),
    "parsable": ("-P",),
    "parsable_long": ("-lP",),
    "letters": ("-o", "[%.6i] %3u/%.3o %c %Y %y %N %a%A%T|%W %H %O %V %E %R %L"),
    "more_letters": ("-o", "%i %I %C %D %m %G %d %K %X %Z %U %l %v %M"),
    "names": ("-o", "JobID:.9,UserName:5,Quota:8|,State:10,Reason:.12,Name:20!"),
    "wide_names": ("-o", "%.8M|%12M|%M|", "-j27"),
    "sorted": ("-S", "-u,i", "-o", "%i %u"),
    "sorted_by_text": ("-S", "g,-Y", "-o", "%i %g %Y"),
    "of_user": ("-u", "cid"),
    "of_account": ("-A", "vision", "-o", "%i %o"),
    "in_partition": ("-p", "interactive"),
    "below_quota": ("-q", "llm", "-o", "%i %g"),
    "jobs": ("-j", "7,8+1,30", "-o", "%i %x %z"),
    "json": ("--json", "-j3,9,25"),
    "yaml": ("--yaml", "-j3,9,25,27"),
    "helpformat": ("--helpformat",),
    "usage": ("--usage",),
}


@pytest.mark.parametrize("name", FORMATS)
def test_output_is_as_it_was(queue: View, name: str) -> None:
    code, out, err = ask(queue, "sfprio", *FORMATS[name])
    assert (code, err) == (0, "")
    golden.check(f"sfprio/{name}.txt", out)


@pytest.mark.parametrize(
    "words",
    [
        ("-j", "7"), ("-j7",), ("--jobs=7",), ("--jobs", "7"), ("--job=7",), ("-hj7",), ("-h", "-j", "7"), ("-j", "-h", "7"),
    ],
)  # fmt: skip
def test_job_ids_are_given_as_to_sprio(queue: View, words: tuple[str, ...]) -> None:
    _, out, _ = ask(queue, "sfprio", *words, "-o", "%i")
    assert [line for line in out.splitlines() if line != "JOBID"] == ["7_[2-9%2]", "7_0"]


def test_an_option_takes_the_next_word_even_if_it_begins_with_a_dash(queue: View) -> None:
    outs = {
        ask(queue, "sfprio", "-ho%i", *words)[1]
        for words in (("-S", "-i"), ("-S-i",), ("--sort=-i",), ("--sort", "-i"))
    }
    assert len(outs) == 1
    assert outs.pop().startswith("27\n26\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-j", "abc"), "Invalid job id: abc; write 123"),
        (("-o", "%9"), "Invalid job format specification"),
        (("-S", "?"), "Invalid sort specification: ?"),
        (("-u", "4000000000"), "Invalid user: 4000000000"),
        (("-M", "mars"), "No cluster 'mars' known here; this daemon serves 'lab'"),
        (("foo",), "Unrecognized option: foo; job ids go behind -j"),
        (("-l", "-o", "%i"), "mutually exclusive"),
        (("--jsno",), "unrecognized arguments: --jsno"),
        (("--json=v0.0.40",), "data parser 'v0.0.40' is not known"),
        (("-o",), "expected one argument"),
    ],
)
def test_a_mistake_is_named_with_a_way_out(queue: View, words: tuple[str, ...], says: str) -> None:
    code, out, err = ask(queue, "sfprio", *words)
    assert (code, out) == (1, "")
    assert err.startswith("sfprio: error: ")
    assert says in err


def test_the_environment_gives_the_format_and_options_win(queue: View) -> None:
    told = {"SFPRIO_FORMAT": "%i:%u"}
    assert ask(queue, "sfprio", environment=told)[1].startswith("JOBID:USER\n3:bob\n")
    assert ask(queue, "sfprio", "-l", environment=told)[1].startswith("          JOBID PARTITION")
    assert ask(queue, "sfprio", "-o", "%u", environment=told)[1].startswith("USER\n")
    assert ask(queue, "sfprio", environment={"SLURM_CLUSTERS": "mars"})[0] == 1


def test_json_and_yaml_hold_the_same(queue: View) -> None:
    _, as_json, _ = ask(queue, "sfprio", "--json", caller=ROOT)
    _, as_yaml, _ = ask(queue, "sfprio", "--yaml", caller=ROOT)
    one, other = json.loads(as_json), yaml.safe_load(as_yaml)
    one["meta"]["command"] = other["meta"]["command"] = []
    assert one == other


def test_yaml_of_an_empty_queue_is_an_empty_list() -> None:
    _, out, _ = ask(view(), "sfprio", "--yaml")
    assert yaml.safe_load(out)["jobs"] == []


@pytest.mark.parametrize(
    "words", [(), ("-l",), ("-P",), ("-S", "u,i"), ("-j", "7"), ("-u", "ann"), ("-q", "vision"), ("-n",)]
)
def test_an_empty_queue_is_a_header(words: tuple[str, ...]) -> None:
    code, out, err = ask(view(), "sfprio", *words)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 1


def test_old_data_are_said_to_be_old(queue: View) -> None:
    code, out, err = ask(queue, "sfprio", away="slurmfaird is not running, these data are 5 min old")
    assert code == 1
    assert len(out.splitlines()) == 12
    assert err == "sfprio: slurmfaird is not running, these data are 5 min old\n"
    told = json.loads(ask(queue, "sfprio", "--json", away="old")[1])
    assert told["warnings"] == [{"description": "old", "source": "slurmfaird"}]
    assert told["meta"]["decided"]["away"] == "old"


def test_private_data_show_own_jobs_and_count_the_others(queue: View) -> None:
    queue.about["private_jobs"] = True
    code, out, err = ask(queue, "sfprio", "-v", "-h", "-o", "%i %u", caller=BOB)
    assert (code, out) == (0, "3 bob\n")
    assert "12 jobs of other users are not shown (PrivateData=jobs)" in err
    _, everything, _ = ask(queue, "sfprio", "--json", caller=BOB)
    assert "ann" not in everything
    assert json.loads(everything)["meta"]["decided"]["hidden_jobs"] == 12


def test_a_long_queue_comes_in_pieces() -> None:
    _, out, _ = ask(many(2500), "sfprio", "-h")
    assert len(out.splitlines()) == 2500


def test_a_pipe_gets_no_colour(queue: View) -> None:
    for words in ((), ("-l",), ("--json",), ("--yaml",)):
        assert "\x1b" not in ask(queue, "sfprio", *words)[1]


def test_the_parser_knows_every_option_of_sprio() -> None:
    known = set(parser()._option_string_actions)
    theirs = "-h --noheader -j --jobs --local -l --long -M --cluster --clusters -n --norm -o --format -S --sort --sibling"
    theirs += " --federation -p --partition -u --user --users -v --verbose -V --version -w --weights --help --helpformat --usage"
    assert set(theirs.split()) <= known
