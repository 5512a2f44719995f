"""One file a queue policy: a sort key and what a failed attempt closes."""

from slurmfair.policy.balance import balance
from slurmfair.policy.fifo import fifo
from slurmfair.policy.intelligent import intelligent
from slurmfair.policy.round_robin import round_robin
from slurmfair.policy.terms import Policy

POLICIES: dict[str, Policy] = {
    "fifo": fifo,
    "round_robin": round_robin,
    "balance": balance,
    "intelligent": intelligent,
}
