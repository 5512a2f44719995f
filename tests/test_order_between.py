"""What quotas do to each other (SEMANTICS 5): the cases of tests/cases/between/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.small_pool import NO_GUARD, J, Pool, Q, job, one_kind

BETWEEN = Path(__file__).parent / "cases" / "between"
SMALL = sorted(BETWEEN.glob("x*.yaml"))
GANG = yaml.safe_load((BETWEEN / "h1_a_gang_against_a_stream.yaml").read_text())


def quotas_of(case: dict[str, Any]) -> dict[str, Q]:
    return {name: Q(**settings) for name, settings in case["quotas"].items()}


def test_all_six_small_cases_are_here() -> None:
    assert {path.name[:2] for path in SMALL} == {"x1", "x2", "x3", "x4", "x5", "x6"}


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_the_small_case_comes_true(path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    jobs = [job(name, **settings) for name, settings in case["jobs"].items()]
    made = one_kind(quotas_of(case), case["free"]).decide(*jobs)
    expected = {key: case[key] for key in ("attempts", "outcomes", "reserved") if key in case}
    assert {key: getattr(made, key) for key in expected} == expected


def test_the_six_small_cases_have_ten_units() -> None:
    for path in SMALL:
        case = yaml.safe_load(path.read_text())
        assert case["free"] + sum(quota["held"] for quota in case["quotas"].values()) == 10


@pytest.mark.parametrize("row", GANG["rows"], ids=lambda row: row["mode"])
def test_the_gang_starts_when_the_story_says(row: dict[str, Any]) -> None:
    started, vision_held = story(row)
    assert (started, vision_held) == (row["starts"], row["vision"])


def story(row: dict[str, Any]) -> tuple[int | None, float]:
    """Return the minute in which the gang starts, and what the stream holds in the end."""
    quotas = {name: replace(quota, share=row["share"][name]) for name, quota in quotas_of(GANG).items()}
    free = GANG["free"]
    gang = job("gang", **GANG["gang"])
    waiting: list[J] = []
    for minute in range(GANG["minutes"]):
        if minute:  # one job of the stream ends, another follows
            free += GANG["stream"]["need"]
            quotas["Vision"] = replace(quotas["Vision"], held=quotas["Vision"].held - GANG["stream"]["need"])
            waiting.append(job(f"v{minute}", order_s=minute, **GANG["stream"]))
        made = pass_of(quotas, free, row["enforce"]).decide(gang, *waiting)
        if made.outcomes["gang"] == "STARTS":
            return minute, quotas["Vision"].held
        begun = [one for one in waiting if made.outcomes[one.name] == "STARTS"]
        waiting = [one for one in waiting if one not in begun]
        free -= sum(one.need for one in begun)
        quotas["Vision"] = replace(quotas["Vision"], held=made.allocated("Vision"))
    return None, quotas["Vision"].held


def pass_of(quotas: dict[str, Q], free: int, enforce: Any) -> Pool:
    return one_kind(quotas, free, fairshare=replace(NO_GUARD, enforce=enforce))
