"""Every case file with a known name is played; how many passed is printed per file.

The copies beside this file are used unless --cases-dir names another folder.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kai_order import ORDER_CHECKS, explanations
from tests.conformance.policy_files import check_policy_case
from tests.conformance.share_files import SHARE_CHECKS

# What stands at the beginning of a file's name -> the check of one of its lines.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "policy_cases": check_policy_case,
    **SHARE_CHECKS,
    **ORDER_CHECKS,
}
SHOWN = 5


def lines(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def failure(check: Callable[[dict[str, Any]], None], case: dict[str, Any]) -> str:
    """Return what went wrong with a case, "" for nothing."""
    try:
        check(case)
    except AssertionError as err:
        return f"{case['name']}: {err}"
    return ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder = metafunc.config.getoption("--cases-dir") or Path(__file__).parent
    found = [
        pytest.param(path, CHECKS[prefix], id=path.name)
        for path in sorted(folder.glob("*.jsonl*"))
        for prefix in CHECKS
        if path.name.startswith(prefix)
    ]
    metafunc.parametrize(("path", "check"), found)


def test_every_case_of_the_file_has_the_expected_answer(
    path: Path, check: Callable[[dict[str, Any]], None], record_property: Callable[[str, object], None]
) -> None:
    failures = [failure(check, case) for case in lines(path)]
    wrong = [text for text in failures if text]
    record_property("cases", f"{path.name}: {len(failures) - len(wrong)} passed, {len(wrong)} failed")
    for text in explanations(path.name):
        record_property("cases", text)
    assert failures, "the file holds no case"
    assert not wrong, "\n".join(wrong[:SHOWN])
