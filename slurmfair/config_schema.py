"""The keys of the policy file, one row each: what it is called, what it may hold, where it goes, what it is about.

Defaults stand once, in the dataclasses of `config.py`. The reference in `docs/policy-file.md` is made from these rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurmfair.config import (
    FairShare,
    Match,
    Pool,
    QueuePolicy,
    Quota,
)
from slurmfair.config_kinds import LEVEL, TRUTH, Kind, choice, duration, nodes, number, several, whole
from slurmfair.config_words import ADDRESS, CRON, LEVELS, MOMENT, NAMES, PATTERN, ZONE
from slurmfair.model import RESOURCES
from slurmfair.unfit import SURE_AFTER

HIGHEST_RANK = 2_147_483_645  # the largest site_factor that Slurm took (SLURM.md 7)
_SOME_RESOURCES = several("resources", RESOURCES)
RESOURCE = Kind(
    _SOME_RESOURCES.says,
    lambda node, spot: tuple(RESOURCES.index(name) for name in _SOME_RESOURCES.read(node, spot)),
    lambda indices: _SOME_RESOURCES.show(tuple(RESOURCES[index] for index in indices)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One key. Dots in `key` and `aliases` are mappings; `field` is the attribute of the section's dataclass, ""
    where code of its own makes something of the value.

    `without` says what holds where the key is left out and no dataclass has a default for it.
    """

    key: str
    field: str
    kind: Kind
    about: str
    aliases: tuple[str, ...] = ()
    required: bool = False
    without: str = ""


# A setting is one row.
# fmt: off
CYCLE_ROWS = (
    Row("interval", "interval_s", duration(positive=True), "time from one cycle to the next"),
    Row("write_budget", "write_budget", whole(1, 1_000_000), "writes to Slurm in one cycle; the rest waits for the next"),
    Row("window", "window", whole(1, 1_000_000), "waiting jobs of each partition that are kept in exact order"),
)
RANKS_ROWS = (
    Row("channel", "channel", choice("site_factor", "priority"), "how ranks reach Slurm; `priority` pins, and is second best"),
    Row("high", "high", whole(1_000, HIGHEST_RANK), "rank of the first job; below it ranks are spaced"),
)
JOB_PRIORITY_ROWS = (
    Row("qos", "qos", LEVELS, "job priority by QOS"),
    Row("comment.pattern", "comment_pattern", PATTERN, "finds the number in the job's comment; empty switches it off"),
    Row("comment.max.qos", "comment_max_qos", LEVELS, "the most that a comment may give, by QOS"),
    Row("comment.max.default", "comment_max_default", LEVEL, "the most that a comment may give in any other QOS"),
    Row("nice_step", "nice_step", whole(0, 1_000_000), "nice that lowers the default by one; 0 switches it off"),
    Row("accounts", "accounts", LEVELS, "job priority by account"),
    Row("default", "default", LEVEL, "job priority where no source gives a number"),
    Row("sources", "sources", several("sources", ("qos", "comment", "nice", "accounts")), "the order in which sources are asked; the first that gives a number wins"),
)
REPORTS_ROWS = (
    Row("listen", "listen", ADDRESS, "where login nodes may ask for reports, by munge; the local socket is always there", without="`off`"),
)
WINDOW_ROWS = (
    Row("window.type", "type", choice("sliding", "tumbling", "cron"), "which part of the past counts", ("windowType",)),
    Row("window.size", "size_s", duration(positive=True), "length of a sliding or tumbling window", ("windowDuration",)),
    Row("window.anchor", "anchor_s", MOMENT, "where a tumbling window once began", ("tumblingWindowStartTime",)),
    Row("window.cron", "cron", CRON, "when a window of type cron begins"),
    Row("window.timezone", "timezone", ZONE, "time zone of the cron line"),
)
FAIRSHARE_ROWS = (
    Row("enabled", "enabled", TRUTH, "whether past use corrects the weights; it is recorded in any case"),
    Row("preset", "preset", choice("slurmfair", "kai"), "`kai` computes as the KAI scheduler does, with `usage: total`"),
    Row("k", "k", number(most=1e6), "strength of the correction; 0 for none", ("historicalUsageWeight",)),
    Row("half_life", "half_life_s", duration(), "age at which use counts half; 0 for no decay", ("decayHalfLife",)),
    Row("usage", "usage", choice("surplus", "surplus_consumed", "total"), "what counts as use", ("usage_basis",)),
    Row("min_history", "min_history_s", duration(), "history that counts as full at least, against a jumpy start"),
    Row("enforce", "enforce", choice("order", "holdback"), "`order` only ranks; `holdback` lets a quota gather what it is owed"),
    Row("backfill_under_reservation", "backfill_under_reservation", TRUTH, "jobs that cannot delay a reservation may pass"),
    Row("starvation_after", "starvation_after_s", duration(), "wait after which the first job is reserved for anyway; 0 for never"),
    Row("staleness", "staleness_s", duration(), "age of accounting data from which they are called stale"),
)
POLICY_ROWS = (
    Row("policy", "name", choice("fifo", "round_robin", "balance", "intelligent"), "how the queue is worked off"),
    Row("order", "order", choice("priority", "submit"), "by job priority, then time; or by time alone"),
    Row("balance_timeout", "balance_timeout_s", duration(), "balance: time after which a blocked job lets the next one try"),
    Row("max_window", "max_window", whole(0, 1_000_000), "balance: most jobs in the window; 0 for no bound"),
    Row("high_threshold", "high_threshold", LEVEL, "intelligent: job priority from which a job is high"),
    Row("high_blocks_low", "high_blocks_low", TRUTH, "intelligent: whether a waiting high job stops all low ones"),
    Row("aging_interval", "aging_interval_s", duration(positive=True), "intelligent: wait that raises a low job by one"),
    Row("aging_cap", "aging_cap", LEVEL, "intelligent: priority that ageing does not pass"),
    Row("aging_mode", "aging_mode", choice("step", "linear"), "intelligent: ageing in whole steps or evenly"),
    Row("starvation_guard", "starvation_guard_s", duration(), "intelligent: time as first aged low job until it blocks; 0 for never"),
    Row("on_never_fit", "on_never_fit", choice("park", "block", "cancel"), f"what becomes of a job that can never fit; cancel ends what of it waits, once {SURE_AFTER} cycles in a row find it so"),
    Row("fifo_scope", "fifo_scope", choice("quota", "gres_type", aliases={"queue": "quota"}), "fifo: what a blocked job stops"),
)
FAIL_OPEN_ROW = Row(
    "fail_open", "fail_open", TRUTH, "whether its held jobs are freed when the daemon is gone for long"
)
MATCH_ROWS = (
    Row("accounts", "accounts", NAMES, "the job's account is one of these"),
    Row("users", "users", NAMES, "the job's user is one of these"),
    Row("qos", "qos", NAMES, "the job's QOS is one of these"),
    Row("partitions", "partitions", NAMES, "one of the job's partitions is one of these"),
)
QUOTA_ROWS = (
    Row("match", "", nodes("a rule, or a list of rules"), "which jobs belong to the quota", without="none"),
    Row("deserved", "", nodes("a number, or a mapping by resource"), "what it may always have, in units of the resource", without="0; for an inner quota the sum of its quotas"),
    Row("limit", "", nodes("a number, or a mapping by resource"), "what it may never pass; -1 for no limit", without="no limit"),
    Row("weight", "weight", number(most=1e9), "its part of what is left over, against its siblings"),
    Row("priority", "priority", whole(0, 1_000_000_000), "siblings of higher priority take what is left over first"),
    Row("quotas", "", nodes("a mapping of names to quotas"), "quotas below this one", without="none"),
)
POOL_ROWS = (
    Row("partitions", "partitions", NAMES, "partitions whose nodes are divided together", required=True),
    Row("resource", "resources", RESOURCE, "what is divided, the main resource first"),
    Row("fairshare", "", nodes("a mapping"), "time-based fair share", ("time_based_fairshare",), without="off"),
    Row("place_grace", "place_grace_s", duration(positive=True), "time that Slurm has to start a job that may start"),
    Row("quotas", "", nodes("a mapping of names to quotas"), "the teams that share the pool", required=True),
)
TOP_ROWS = (
    Row("version", "", choice("1"), "version of the format", required=True),
    Row("cycle", "", nodes("a mapping"), "the daemon's rhythm", without="as below"),
    Row("ranks", "", nodes("a mapping"), "the numbers written to Slurm", without="as below"),
    Row("job_priority", "", nodes("a mapping"), "where a job's priority 1 to 9 comes from", without="as below"),
    Row("reports", "", nodes("a mapping"), "where reports are answered", without="as below"),
    Row("unmatched", "", nodes("`leave`, or the path of a quota"), "what becomes of jobs that no rule matches", without="leave"),
    Row("fail_open_after", "fail_open_after_s", duration(positive=True), "time without the daemon after which held jobs are freed"),
    Row("pools", "", nodes("a mapping of names to pools"), "parts of the cluster that are divided on their own", required=True),
)
# fmt: on
ALL_QUOTA_ROWS = (*QUOTA_ROWS, *POLICY_ROWS, FAIL_OPEN_ROW)
ALL_POOL_ROWS = (*POOL_ROWS, *POLICY_ROWS, FAIL_OPEN_ROW)
ALL_FAIRSHARE_ROWS = (*FAIRSHARE_ROWS, *WINDOW_ROWS)

QUOTA = Quota("", -1, True, (), (), (), weight=1.0, priority=100, policy=QueuePolicy())
POOL = Pool("", (), (0,), FairShare(), ())
MATCH = Match()
