"""What one cycle leaves to the next outlives a restart: timers, ages, places, by pool, quota and policy."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from slurmfair.config_file import parse_policy
from slurmfair.memory import Memory, load_memory, save_memory
from slurmfair.model import UNSET_S, Outcome
from slurmfair.state import State
from tests.cycles import POLICY, cycle, full
from tests.tables import NOW_S

ROWS = (
    {"job_id": 1, "wanted": (8, 1, 1), "submit_s": NOW_S - 500, "eligible_s": NOW_S - 400},
    {"job_id": 2, "priority": 0, "reason": "JobHeldUser"},
    {"job_id": 3, "account": "llm-pretrain", "restarts": 2},
    {"job_id": 4, "account": "llm-eval", "wanted": (16, 4, 4), "dependent": True},
    {"job_id": 5, "site_factor": 10**9, "priority": 10**9},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def restarted(path: Path, memory: Memory) -> Memory:
    """Return what a new daemon finds after one that knew the memory."""
    state = State(path)
    save_memory(state, memory)
    state.set_meta(last_cycle_s=str(memory.last_cycle_s))
    state.close()
    state = State(path)
    found = load_memory(state)
    state.close()
    return found


def same(a: object, b: object) -> None:
    """Require that two dataclasses of columns are equal, the numbers of quotas aside."""
    for field in fields(a):  # type: ignore[arg-type]
        one, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, field.name
            assert one.tolist() == other.tolist(), field.name


def test_everything_comes_back_after_a_restart(path: Path) -> None:
    before = cycle(*ROWS, nodes=full(14)).memory
    after = restarted(path, before)
    assert after.last_cycle_s == NOW_S
    assert set(after.pools) == {"gpu"}
    old, new = before.pools["gpu"], after.pools["gpu"]
    same(replace(old.timers.seen, leaf=new.timers.seen.leaf), new.timers.seen)
    same(old.timers, new.timers)
    same(old.placing, new.placing)
    for name in ("path", "policy"):
        of_old = [getattr(old.timers.seen, name)[leaf] for leaf in old.timers.seen.leaf]
        assert [getattr(new.timers.seen, name)[leaf] for leaf in new.timers.seen.leaf] == of_old


def test_a_cycle_after_a_restart_decides_as_one_without(path: Path) -> None:
    first = cycle(*ROWS, nodes=full(14)).memory
    stayed = cycle(*ROWS, nodes=full(14), memory=first, now_s=NOW_S + 10)
    back = cycle(*ROWS, nodes=full(14), memory=restarted(path, first), now_s=NOW_S + 10)
    assert stayed.changes == back.changes
    same(stayed.pools[0].queue, back.pools[0].queue)
    same(stayed.pools[0].decision, back.pools[0].decision)


def test_a_restart_does_not_give_slurm_a_new_grace_to_place_a_job(path: Path) -> None:
    row = ROWS[-1]
    memory = cycle(row, nodes=full(14)).memory
    memory = cycle(row, nodes=full(14), memory=restarted(path, memory), now_s=NOW_S + 20).memory
    found = cycle(row, nodes=full(14), memory=restarted(path, memory), now_s=NOW_S + 40)
    assert found.pools[0].decision.outcome.tolist() == [Outcome.PLACEMENT]


def test_an_outage_is_seen_from_the_state_file(path: Path) -> None:
    memory = restarted(path, cycle(*ROWS, nodes=full()).memory)
    timers = cycle(*ROWS, nodes=full(), memory=memory, now_s=NOW_S + 900).memory.pools["gpu"].timers
    assert timers.first_attempt_s[timers.seen.entry_id == 1].tolist() == [NOW_S + 900]
    assert timers.waiting_since_s[timers.seen.entry_id == 1].tolist() == [NOW_S - 400]


def test_a_policy_changed_during_a_restart_clears_first_attempts_and_nothing_else(path: Path) -> None:
    memory = restarted(path, cycle(*ROWS, nodes=full()).memory)
    fifo = parse_policy(POLICY.text.replace("policy: balance", "policy: fifo"), "test")
    after = (
        cycle(*ROWS, nodes=full(), memory=memory, now_s=NOW_S + 10, config=fifo).memory.pools["gpu"].timers
    )
    assert after.first_attempt_s[after.seen.entry_id == 1].tolist() == [NOW_S + 10]
    assert after.order_s[after.seen.entry_id == 1].tolist() == [NOW_S - 400]


def test_what_did_not_change_is_not_written_again(path: Path) -> None:
    memory = cycle(*ROWS, nodes=full(14)).memory
    state = State(path)
    assert save_memory(state, memory) > 0
    assert save_memory(state, memory) == 0
    gone = cycle(*ROWS[1:], nodes=full(14), memory=memory, now_s=NOW_S + 10).memory
    assert save_memory(state, gone) >= 1
    state.close()


def test_pools_are_kept_apart(path: Path) -> None:
    one = cycle({"job_id": 1, "wanted": (8, 1, 1)}, nodes=full()).memory.pools["gpu"]
    other = cycle({"job_id": 2, "wanted": (8, 1, 1)}, nodes=full(), now_s=NOW_S + 7).memory.pools["gpu"]
    after = restarted(path, Memory(pools={"a": one, "b": other}, last_cycle_s=NOW_S))
    assert after.of_pool("a").timers.seen.entry_id.tolist() == [1]
    assert after.of_pool("b").timers.first_attempt_s.tolist() == [NOW_S + 7]
    assert len(after.of_pool("of no name").timers) == 0


def test_a_new_state_file_remembers_nothing(path: Path) -> None:
    state = State(path)
    memory = load_memory(state)
    state.close()
    assert (memory.pools, memory.last_cycle_s) == ({}, None)
    first = cycle(*ROWS, nodes=full(), memory=memory).memory.pools["gpu"].timers
    assert first.first_attempt_s[first.seen.entry_id == 2].tolist() == [UNSET_S]
