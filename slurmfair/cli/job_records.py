"""One job as a record for JSON and YAML, in squeue's names where squeue has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from slurmfair.cli.records import ROWS_AT_A_TIME, number
from slurmfair.cli.rows import Rows, of_quotas
from slurmfair.cli.terms import Asked
from slurmfair.cli.text import clock
from slurmfair.model import FOREVER_S, Outcome
from slurmfair.view import PROMISED, Column

Make = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    return value


def _from_zero(value: int) -> dict[str, Any]:
    return number(value if value >= 0 else None)


def _positive(value: int) -> dict[str, Any]:
    return number(value if value > 0 else None)


def _limit_minutes(seconds: int) -> dict[str, Any]:
    """Slurm's records count time limits in minutes."""
    return number(seconds // 60, infinite=seconds >= FOREVER_S)


def _promised(reserved: int) -> bool:
    return reserved == PROMISED


def _outcome(value: int) -> str:
    return Outcome(value).name if value >= 0 else "NONE"


# name, column of the view, how it is written
FIELDS: tuple[tuple[str, str, Make], ...] = (
    ("account", "account", _plain),
    ("array_job_id", "array_id", _positive),
    ("array_task_id", "array_task", _from_zero),
    ("array_task_string", "task_list", _plain),
    ("het_job_id", "het_id", _positive),
    ("het_job_offset", "het_offset", _from_zero),
    ("job_id", "job_id", _plain),
    ("name", "name", _plain),
    ("nice", "nice", _plain),
    ("partition", "partition", _plain),
    ("qos", "qos", _plain),
    ("user_name", "user", _plain),
    ("priority", "priority", number),
    ("state_reason", "reason", _plain),
    ("state_description", "reason_text", _plain),
    ("submit_time", "submit_s", _positive),
    ("eligible_time", "eligible_s", _positive),
    ("begin_time", "begin_s", _positive),
    ("start_time", "start_s", _positive),
    ("time_limit", "time_limit_s", _limit_minutes),
    ("dependent", "dependent", bool),
    ("tasks", "tasks", _plain),
    ("node_count", "nodes", number),
    ("gpus", "gpus", number),
    ("cpus", "cpus", number),
    ("memory_mib", "mem_mib", number),
    ("gpu_type", "gpu_type", _plain),
    ("pool", "pool", _plain),
    ("quota", "quota", _plain),
    ("policy", "policy", _plain),
    ("job_priority", "base", _plain),
    ("effective_priority", "effective", _plain),
    ("position", "position", _positive),
    ("place", "place", _positive),
    ("rank", "rank", _positive),
    ("outcome", "outcome", _outcome),
    ("blocker", "blocker", _positive),
    ("reserved", "reserved", bool),
    ("promised", "reserved", _promised),
    ("room_time", "room_s", _from_zero),
    ("order_time", "order_s", _from_zero),
    ("waiting_since", "waiting_s", _from_zero),
    ("first_attempt", "first_attempt_s", _from_zero),
)


def job_records(rows: Column, asked: Asked) -> Iterator[dict[str, Any]]:
    """Return a record of each row, in their order."""
    quotas = of_quotas(asked.view)
    at = clock(asked.environment.get("TZ", ""))
    names = [name for name, _, _ in FIELDS]
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        some = Rows(asked.view, rows[first : first + ROWS_AT_A_TIME], at, quotas)
        columns = [list(map(make, _values(some, column))) for _, column, make in FIELDS]
        for state, *values in zip(some.states, *columns, strict=True):
            yield {**dict(zip(names, values, strict=True)), "state": state}


def _values(rows: Rows, column: str) -> list[Any]:
    if column not in rows.view.texts:
        return rows.numbers(column)
    values = rows.view.texts[column]
    return [values[code] for code in rows.numbers(column)]
