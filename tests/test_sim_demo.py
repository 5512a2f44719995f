"""What `make run` shows where no real Slurm can be had."""

from __future__ import annotations

import pytest

from slurmfair.sim import demo


def test_the_story_ends_well_and_nobody_of_vision_passes_its_big_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "REAL_S", 0.0)
    assert demo.main() == 0
    told = capsys.readouterr().out
    assert "--- sfprio -l" in told and "Behind:" in told
    (line,) = (line for line in told.splitlines() if line.startswith("started, in order: "))
    order = line.partition(": ")[2].split(", ")
    assert len(order) == 42
    assert order.index("gang16") < min(order.index(f"vision{i}") for i in range(1, 5))


def test_an_interrupted_story_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "tell", interrupt)
    assert demo.main() == 130
    assert "nothing is left behind" in capsys.readouterr().out
