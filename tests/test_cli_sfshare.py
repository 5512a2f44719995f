from __future__ import annotations

import json

import pytest
import yaml

from slurmfair.cli.share import parser
from slurmfair.standing import Standing
from slurmfair.view import View
from tests import golden
from tests.asking import BOB, ask
from tests.views import job, pool, quota, running, view


@pytest.fixture
def tree() -> View:
    return view(
        [
            running(1, gpus=8),
            running(2, gpus=2, user="bob"),
            job(3, gpus=4, tasks=3, array_id=3, task_list="1-3"),
            job(4, gpus=4, user="cid", quota="llm.pretrain"),
            job(5, gpus=4, user="cid", quota="llm.pretrain", standing=Standing.FOREIGN_HOLD),
            job(6, gpus=0, cpus=8, user="eve", pool="cpu", quota="batch"),
        ],
        [
            quota("vision", deserved=16.0, limit=24.0, weight=3.0, allocated=10.0, demand=22.0, usage=0.125, due=0.75,
                  corrected=1.375, effective=0.71, fair_share=20.5, ratio=10 / 20.5, pending=3, head=3),
            quota("llm", leaf=False, usage=0.5, due=0.25, corrected=0.0, effective=0.0, over=2.0, allocated=10.0, entitled=False),
            quota("llm.pretrain", weight=2.0, pending=1, head=4, demand=4.0),
            quota("llm.a-quota-with-a-very-long-name", pending=0),
            quota("batch", pool="cpu", resource="cpu", deserved=0.0, ratio=None, entitled=False),
        ],
        pools=[pool(), pool("cpu", partitions=["cpu"], resource="cpu", capacity=64)],
    )  # fmt: skip


FORMATS = {
    "short": (),
    "all_users": ("-a",),
    "long": ("-l", "-a"),
    "partitions": ("-m",),
    "users_only": ("-U", "-a"),
    "one_user": ("-u", "cid,eve"),
    "accounts": ("-A", "pretrain,vision"),
    "parsable": ("-p", "-a"),
    "parsable2": ("-P", "-l"),
    "noheader": ("-n",),
    "format": ("-o", "Quota%12,User%-5,Allocated,FairShareTRES%20,AllocTRES"),
    "json": ("--json", "-A", "llm,pretrain"),
    "yaml": ("--yaml", "-A", "vision"),
    "helpformat": ("-e",),
}


@pytest.mark.parametrize("name", FORMATS)
def test_output_is_as_it_was(tree: View, name: str) -> None:
    code, out, err = ask(tree, "sfshare", *FORMATS[name])
    assert (code, err) == (0, "")
    golden.check(f"sfshare/{name}.txt", out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "Quotta"), "Invalid field requested: 'Quotta'; did you mean Quota?"),
        (("-o", ""), "no fields requested"),
        (("-o", "Quota%0"), "Invalid field width: 0"),
        (("-o", "Quota%5000"), "Invalid field width: 5000"),
        (("-A", "visoin"), "no quota 'visoin'; did you mean vision?"),
        (("-M", "mars"), "No cluster 'mars'"),
        (("foo",), "unrecognized arguments: foo"),
        (("--json=v1",), "data parser 'v1' is not known"),
    ],
)
def test_a_mistake_is_named_with_a_way_out(tree: View, words: tuple[str, ...], says: str) -> None:
    code, out, err = ask(tree, "sfshare", *words)
    assert (code, out) == (1, "")
    assert err.startswith("sfshare: error: ")
    assert says in err


def test_json_and_yaml_hold_the_same(tree: View) -> None:
    one = json.loads(ask(tree, "sfshare", "--json", "-a")[1])
    other = yaml.safe_load(ask(tree, "sfshare", "--yaml", "-a")[1])
    one["meta"]["command"] = other["meta"]["command"] = []
    assert one == other


def test_private_data_hide_the_users_but_not_the_quotas(tree: View) -> None:
    tree.about["private_jobs"] = True
    _, out, _ = ask(tree, "sfshare", "-a", "-P", "-o", "Quota,User,Allocated", caller=BOB)
    assert "ann" not in out
    assert " vision||10\n vision|bob|2\n" in out


def test_the_parser_knows_every_option_of_sshare() -> None:
    theirs = "-a --all -A --accounts -e --helpformat --json -l --long -m --partition -M --cluster --clusters -n --noheader -o"
    theirs += " --format -p --parsable -P --parsable2 -u --users -U --Users -v --verbose -V --version --yaml --help --usage"
    assert set(theirs.split()) <= set(parser()._option_string_actions)


def test_an_empty_cluster_is_its_pools() -> None:
    code, out, _ = ask(view(), "sfshare", "-nP", "-o", "Quota,Allocated,Limit")
    assert (code, out) == (0, "h100|0|32\n")
