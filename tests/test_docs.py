"""Man pages and completion are as the parsers say; tests/live/test_shells.py renders and uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfair.cli import main, prio, share
from tests.test_reporter import fresh, serving
from tests.views import job, quota, view

ROOT = Path(__file__).resolve().parents[1]
SHARE = ROOT / "conf" / "share"
PAGES = sorted(path.relative_to(SHARE).as_posix() for path in SHARE.glob("man/*/*"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docs/build.py makes now."""
    pytest.importorskip("shtab", reason="shtab (extra docs) makes the completion")
    out = tmp_path_factory.mktemp("share")
    environment = os.environ | {"COLUMNS": "80"}
    subprocess.run(
        [sys.executable, "docs/build.py", str(out)], cwd=ROOT, env=environment, check=True, timeout=120
    )
    return out


def test_there_is_a_page_for_everything() -> None:
    assert [Path(page).name for page in PAGES] == [
        "sfprio.1", "sfshare.1", "slurmfair.1", "slurmfair.yaml.5", "slurmfaird.8",
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_as_the_parsers_say(built: Path, page: str) -> None:
    if sys.version_info[:2] != (3, 11):
        pytest.skip("usage lines break differently in other releases of Python; compared under 3.11")
    assert (SHARE / page).read_text() == (built / page).read_text(), "run make docs"


@pytest.mark.parametrize(("name", "parser"), [("sfprio", prio.parser()), ("sfshare", share.parser())])
@pytest.mark.parametrize("path", ["bash-completion/completions/{}", "zsh/site-functions/_{}"])
def test_completion_knows_every_option(name: str, parser: prio.Parser, path: str) -> None:
    text = (SHARE / path.format(name)).read_text()
    hidden = {"--federation", "--local", "--sibling", "--sib"}
    missing = [
        option for option in parser._option_string_actions if option not in text and option not in hidden
    ]
    assert missing == [], "run make docs"


def test_completion_knows_every_command() -> None:
    text = (SHARE / "bash-completion/completions/slurmfair").read_text()
    assert " ".join(main.ASKED) in text


def completed(folder: Path, *words: str) -> list[str]:
    """Return what a real bash proposes for the last word."""
    script = """
        source "$SHARE/bash-completion/completions/$1"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        _shtab_$1 "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name in ("sfprio", "sfshare"):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m slurmfair.cli.{name} "$@"\n')
        (tools / name).chmod(0o755)
    environment = os.environ | {
        "SHARE": str(SHARE), "RUNTIME_DIRECTORY": str(folder), "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose reporter the completion asks."""
    folder = tmp_path_factory.mktemp("completion")
    mine = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    told = fresh(
        view(
            [job(123, user=mine), job(1245, user=mine), job(99, user="bob")],
            [quota("vision"), quota("llm.eval")],
        )
    )
    told.about["interval_s"] = 1000.0
    with serving(folder, told):
        yield folder


@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (("sfprio", "--lo"), ["--long"]),
        (("sfprio", "-j", "12"), ["123", "1245"]),
        (("sfprio", "-j", "123,124"), ["123,1245"]),
        (("sfprio", "-q", "v"), ["vision"]),
        (("sfprio", "-p", "tr"), ["train"]),
        (("sfprio", "-u", "b"), ["bob"]),
        (("sfshare", "-A", "ll"), ["llm.eval"]),
        (("slurmfair", "exp"), ["explain"]),
        (("slurmfair", "explain", "1"), ["123", "1245"]),
        (("slurmfair", "set", "h"), ["h100"]),
    ],
)
def test_bash_completes(cluster: Path, words: tuple[str, ...], proposed: list[str]) -> None:
    assert completed(cluster, *words) == proposed


def test_completion_runs_nothing_that_stands_in_a_name(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with serving(tmp_path, fresh(view((), [quota(f"v$(touch {mark})"), quota("v`true`")]))):
        completed(tmp_path, "sfprio", "-q", "v")
    assert not mark.exists()
