"""sfprio: what each waiting job's place is made of, in the grammar of sprio."""

from __future__ import annotations

import argparse
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from slurmfair.cli.columns import BY_LETTER, BY_NAME, FIELDS, Field, sort_key
from slurmfair.cli.formats import Cell, Format, read_format
from slurmfair.cli.job_ids import job_ids, rows_of
from slurmfair.cli.job_records import job_records
from slurmfair.cli.records import as_json, as_yaml, envelope
from slurmfair.cli.rows import Rows, of_quotas
from slurmfair.cli.terms import ELSEWHERE, Asked, Parser, Reply, add_common, note, split
from slurmfair.cli.text import clock
from slurmfair.errors import SlurmfairError
from slurmfair.standing import Standing
from slurmfair.view import Column, View

SHORT = "%.15i %9r %8u %16g %.5e %.5k %.10Y %10x %z"
LONG = "%.15i %9r %.8u %.8o %16g %11m %.5e %.5k %.10Y %.10S %.8l %.6v %10x %.11w %.11h %z"
NORMALISED = "%.15i %9r %8u %16g %.5e %.5k %10y %10x %z"
WEIGHTS = "%.15i %9r %.10Y %.10S"
ROWS_AT_A_TIME = 400  # made between two turns of the reporter's loop: about a millisecond


def help_format() -> str:
    """Return the fields of both dialects."""
    lines = [f"%{one.letter}  {one.names[0]:<18}{one.header:<15}{one.about}" for one in FIELDS]
    return "\n".join(lines) + "\n"


@cache
def parser() -> Parser:
    """Return the parser of sfprio; man page and completion are made from it."""
    out = Parser(
        prog="sfprio",
        add_help=False,
        description="Show the waiting jobs in the order in which slurmfair lets them start, and why.",
        epilog=ELSEWHERE,
    )
    rows = out.add_argument_group("which jobs")
    rows.add_argument(
        "-j", "--jobs", nargs="?", const="", metavar="JOBS", help="job ids: 123, 123_4, 123_[4-9], 123+1"
    )
    rows.add_argument("-u", "--user", "--users", metavar="USERS", help="of these users (names or ids)")
    rows.add_argument("-A", "--account", "--accounts", metavar="ACCOUNTS", help="of these accounts")
    rows.add_argument("-p", "--partition", "--partitions", metavar="PARTITIONS", help="in these partitions")
    rows.add_argument(
        "-q", "--quota", "--quotas", metavar="QUOTAS", help="of these quotas and all below them"
    )
    rows.add_argument(
        "-M", "--cluster", "--clusters", metavar="CLUSTER", help="must be the daemon's own cluster"
    )
    look = out.add_argument_group("how they are shown")
    look.add_argument("-l", "--long", action="store_true", help="more columns")
    look.add_argument(
        "-n", "--norm", action="store_true", help="priorities divided by the highest that Slurm knows"
    )
    look.add_argument(
        "-w", "--weights", action="store_true", help="show the weight of the rank, not the jobs"
    )
    look.add_argument(
        "-o", "--format", metavar="FORMAT", help="'%%.15i %%9r' or 'JobID:.15,Partition:9'; see --helpformat"
    )
    look.add_argument(
        "-S",
        "--sort",
        metavar="FIELDS",
        help="fields to sort by, such as u,-Y; default: the order of starting",
    )
    look.add_argument("-h", "--noheader", action="store_true", help="no header")
    look.add_argument("-P", "--parsable2", action="store_true", help="fields of full length, separated by |")
    look.add_argument("--json", nargs="?", const="", metavar="PARSER", help="as JSON")
    look.add_argument("--yaml", nargs="?", const="", metavar="PARSER", help="as YAML")
    for name in ("--federation", "--local", "--sibling", "--sib"):
        look.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    add_common(out, help_format())
    out.add_argument("ids", nargs="*", help=argparse.SUPPRESS)
    return out


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the options; a job list may stand behind `-j` as a word of its own, as sprio allows."""
    given = parser().parse(argv)
    if given.ids and given.jobs == "":
        given.jobs = given.ids.pop(0)
    if given.ids:
        parser().error(f"Unrecognized option: {given.ids[0]}; job ids go behind -j")
    if given.long and given.format is not None:
        parser().error(
            "Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry."
        )
    if given.json or given.yaml:
        parser().error(f"data parser {given.json or given.yaml!r} is not known; leave it away")
    return given


def reply(asked: Asked) -> Reply:
    """Return what sfprio prints.

    Raises:
        SlurmfairError: a job id, field, user or cluster is not understood.
    """
    given = parse(list(asked.argv))
    check_cluster(asked, given.cluster or asked.environment.get("SLURM_CLUSTERS", ""))
    rows = _chosen(asked.view, given)
    err = note(asked, "sfprio", int(asked.view.about.get("hidden", 0)), given.verbose)
    code = 1 if asked.away else 0
    if given.json is not None or given.yaml is not None:
        write = as_json if given.json is not None else as_yaml
        records = job_records(_sorted(asked, rows, given.sort), asked)
        return Reply(write("jobs", records, envelope(asked, "sfprio")), err, code)
    text = _default_format(given, asked) if given.format is None else given.format
    form = read_format(text, BY_LETTER, BY_NAME)
    if given.weights:
        return Reply(_weights(form, given.noheader), err, code)
    out = Table(asked, form, _sorted(asked, rows, given.sort), not given.noheader, given.parsable2)
    return Reply(out.pieces(), err, code, shared=not err)


def _default_format(given: argparse.Namespace, asked: Asked) -> str:
    if given.long:
        return LONG
    if given.weights:
        return WEIGHTS
    return asked.environment.get("SFPRIO_FORMAT") or (NORMALISED if given.norm else SHORT)


def check_cluster(asked: Asked, name: str) -> None:
    """Refuse any cluster but ours."""
    ours = str(asked.view.about.get("cluster", ""))
    if name and name != ours:
        raise SlurmfairError(
            f"No cluster {name!r} known here; this daemon serves {ours!r}, ask on the other's machines"
        )


def _chosen(view: View, given: argparse.Namespace) -> Column:
    """Return the rows asked for: waiting jobs, and others only if their ids are given."""
    waiting = view.jobs["standing"] < Standing.RUNNING
    wanted = rows_of(view, job_ids(given.jobs)) if given.jobs else waiting
    for column, names in (
        ("user", [_user(name) for name in split(given.user or "")]),
        ("account", split(given.account or "")),
        ("partition", split(given.partition or "")),
    ):
        if names:
            wanted &= one_of(view, column, names)
    if given.quota:
        wanted &= below(view, split(given.quota))
    return np.flatnonzero(wanted)


def _user(name: str) -> str:
    if not name.isdecimal():
        return name
    try:
        return pwd.getpwuid(int(name)).pw_name
    except (KeyError, OverflowError) as err:
        raise SlurmfairError(f"Invalid user: {name}; no user has this number") from err


def one_of(view: View, column: str, names: list[str]) -> Column:
    """Return a mask of the rows whose text (or one of several, for partitions) is among the names."""
    asked = set(names)
    match = np.asarray([bool(asked & set(value.split(","))) for value in view.texts[column]] or [False])
    found: Column = match[view.jobs[column]]
    return found


def below(view: View, quotas: list[str]) -> Column:
    """Return a mask of the rows in these quotas or below them."""
    starts = tuple(f"{quota}." for quota in quotas)
    match = np.asarray(
        [value in quotas or value.startswith(starts) for value in view.texts["quota"]] or [False]
    )
    found: Column = match[view.jobs["quota"]]
    return found


def _sorted(asked: Asked, rows: Column, fields: str | None) -> Column:
    """Return the rows sorted by fields such as "u,-Y"; the order of the view where they are equal."""
    if not fields or not len(rows):
        return rows
    some = _rows(asked, rows)
    keys = []
    for part in split(fields):
        name = part.lstrip("+-")
        found = BY_LETTER.get(name) or BY_NAME.get(name.lower())
        if found is None:
            raise SlurmfairError(f"Invalid sort specification: {part}; --helpformat lists the fields")
        key = sort_key(some, found)
        keys.append(-key if part.startswith("-") else key)
    return rows[np.lexsort(keys[::-1])]


def _rows(asked: Asked, rows: Column) -> Rows:
    return Rows(asked.view, rows, clock(asked.environment.get("TZ", "")), of_quotas(asked.view))


def _weights(form: Format[Field], noheader: bool) -> Iterator[str]:
    """The rank is the only part of the order that has a weight, and it is 1, as in sprio's SITE column."""
    if not noheader:
        yield form.header() + "\n"
    yield form.line([{"i": "Weights", "S": "1"}.get(cell.field.letter, "") for cell in form.cells]) + "\n"


@dataclass(frozen=True, slots=True)
class Table:
    asked: Asked
    form: Format[Field]
    rows: Column
    header: bool
    parsable: bool

    def pieces(self) -> Iterator[str]:
        """Return the table, ROWS_AT_A_TIME at a time."""
        form = _parsable(self.form) if self.parsable else self.form
        if self.header:
            yield form.header() + "\n"
        quotas = of_quotas(self.asked.view)
        at = clock(self.asked.environment.get("TZ", ""))
        for first in range(0, len(self.rows), ROWS_AT_A_TIME):
            some = Rows(self.asked.view, self.rows[first : first + ROWS_AT_A_TIME], at, quotas)
            lines = form.lines([cell.field.cells(some) for cell in form.cells])
            yield "\n".join(lines) + "\n"


def _parsable(form: Format[Field]) -> Format[Field]:
    last = len(form.cells) - 1
    cells = (Cell(cell.field, 0, False, "|" if n < last else "") for n, cell in enumerate(form.cells))
    return Format("", tuple(cells))
