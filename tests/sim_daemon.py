"""The daemon's own cycle on a simulated cluster: the same reading, history, decision, writing and state file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slurmfair.apply import Refusals, apply_changes
from slurmfair.config import Config
from slurmfair.config_file import parse_policy
from slurmfair.cycle import Channel, Cycle, look_at, run_cycle
from slurmfair.history import Past
from slurmfair.matching import quota_arrays
from slurmfair.memory import Memory, load_memory, save_memory
from slurmfair.sim import JobSpec, NodeSpec, Rules, SimCluster
from slurmfair.state import State
from slurmfair.usage import allocated

CHANNEL = Channel(own_factors=0)
NO_HURRY_S = 60.0


class SimDaemon:
    """One daemon; `restart` makes a new one from the state file."""

    def __init__(self, sim: SimCluster, policy: str | Config, folder: Path) -> None:
        self.sim = sim
        self.config = parse_policy(policy, "test") if isinstance(policy, str) else policy
        self.path = folder / "state.db"
        self.skew_s = 0  # how far the cluster's clock is off the time that passes
        self.open()

    def open(self) -> None:
        self.state = State(self.path)
        self.memory: Memory = load_memory(self.state)
        self.past = Past(self.state)

    def restart(self) -> None:
        self.state.close()
        self.open()

    def cycle(self) -> Cycle:
        """One turn of the loop; returns what it decided."""
        reading = self.sim.read()
        reading = replace(reading, now_s=reading.now_s + self.skew_s)
        self.past.catch_up(self.sim, self.config, reading.now_s)
        look = look_at(reading, self.config, self.memory)
        usage = self.past.look(look.snapshot)
        cycle = run_cycle(look, self.config, CHANNEL, self.memory, usage, self.past.requeued)
        applied = apply_changes(cycle.changes, self.sim, Refusals(), NO_HURRY_S)
        self.memory = cycle.memory_after(applied.done)
        save_memory(self.state, self.memory)
        self.state.set_meta(last_cycle_s=str(reading.now_s))
        return cycle

    def run(
        self, for_s: int, each: Callable[[int], None] | None = None, until: Callable[[], bool] | None = None
    ) -> None:
        """Let time pass, with a cycle every interval; `each` hears the time before each cycle."""
        end_s = self.sim.now_s + for_s
        while self.sim.now_s < end_s:
            if each is not None:
                each(self.sim.now_s)
            self.cycle()
            if until is not None and until():
                return
            self.sim.advance(int(self.config.cycle.interval_s))

    def gpu_s(self, since_s: int) -> dict[str, float]:
        """Return the GPU-seconds that each quota of the first pool took since then, by the daemon's ledger."""
        pool = self.config.pools[0]
        until_s = self.sim.now_s + self.skew_s
        found = allocated(self.past.pools[pool.name].ledger, quota_arrays(pool), since_s, until_s)
        return {quota.path: float(found[row, 0]) for row, quota in enumerate(pool.quotas)}


def machines(*gpus: int, rules: Rules | None = None) -> SimCluster:
    """Return a cluster of nodes with so many GPUs each, whose backfill looks every 10 s."""
    nodes = [NodeSpec(f"gpu{i:02}", ("train",), {"h100": n}) for i, n in enumerate(gpus, 1)]
    return SimCluster(nodes, rules=rules or Rules(bf_interval_s=10, sched_interval_s=10))


def submit(sim: SimCluster, account: str, n: int = 1, **asked: object) -> list[int]:
    """Submit jobs of one account; return their ids."""
    return [sim.submit(JobSpec(account=account, **asked)) for _ in range(n)]  # type: ignore[arg-type]
