"""sfshare: who has what, who is owed what, in the grammar of sshare on the tree of quotas."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from slurmfair.cli.formats import WIDEST
from slurmfair.cli.prio import check_cluster
from slurmfair.cli.records import as_json, as_yaml, envelope
from slurmfair.cli.share_rows import Row, share_record, share_rows
from slurmfair.cli.terms import ELSEWHERE, Asked, Parser, Reply, Say, add_common, note, split
from slurmfair.cli.text import amount, fitted, printable, width_of
from slurmfair.errors import SlurmfairError


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its width is negative for the left side, as in sshare's formats."""

    name: str
    width: int
    cell: Callable[[Row], str]


def _plain(key: str) -> Callable[[Row], str]:
    return lambda row: "" if row.get(key) is None else printable(str(row[key]))


def _amount(key: str) -> Callable[[Row], str]:
    return lambda row: "" if row.get(key) is None else amount(row[key])


def _share(key: str) -> Callable[[Row], str]:
    return lambda row: "" if row.get(key) is None else f"{row[key]:.6f}"


def _yes_no(key: str) -> Callable[[Row], str]:
    return lambda row: {None: "", True: "yes", False: "no"}[row.get(key)]


def _head(row: Row) -> str:
    return str(row["head"]) if row.get("head", -1) >= 0 else ""


def _quota(row: Row) -> str:
    return " " * row["indent"] + printable(row["quota"] or row["pool"])


def _tres(key: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        known = {name: amounts[key] for name, amounts in row.get("by_resource", {}).items()}
        return ",".join(f"{name}={amount(value)}" for name, value in known.items() if value is not None)

    return cell


FIELDS = (
    Field("Quota", -24, _quota),
    Field("User", 10, _plain("user")),
    Field("Partition", 12, _plain("partitions")),
    Field("Pool", -12, _plain("pool")),
    Field("Policy", 11, _plain("policy")),
    Field("Deserved", 9, _amount("deserved")),
    Field("Limit", 7, _amount("limit")),
    Field("Weight", 7, _amount("weight")),
    Field("Priority", 8, _plain("priority")),
    Field("Allocated", 9, _amount("allocated")),
    Field("OverQuota", 9, _amount("over")),
    Field("AfterPass", 9, _amount("after_pass")),
    Field("Pending", 8, _plain("pending")),
    Field("Demand", 9, _amount("demand")),
    Field("Usage", 9, _share("usage")),
    Field("Due", 9, _share("due")),
    Field("Corrected", 9, _share("corrected")),
    Field("EffWeight", 9, _share("effective")),
    Field("FairShare", 9, _amount("fair_share")),
    Field("Ratio", 9, _share("ratio")),
    Field("Entitled", 8, _yes_no("entitled")),
    Field("Head", 10, _head),
    Field("Resource", 10, _plain("resource")),
    Field("DeservedTRES", 30, _tres("deserved")),
    Field("LimitTRES", 30, _tres("limit")),
    Field("AllocTRES", 30, _tres("allocated")),
    Field("DemandTRES", 30, _tres("demand")),
    Field("UsageTRES", 30, _tres("usage")),
    Field("FairShareTRES", 30, _tres("fair_share")),
)
BY_NAME = {field.name.lower(): field for field in FIELDS}
SHORT = "Quota,User,Deserved,Limit,Weight,Allocated,OverQuota,Demand,Usage,Due,FairShare,Ratio,Entitled"
LONG = (
    "Quota,User,Policy,Deserved,Limit,Weight,Priority,Allocated,OverQuota,AfterPass,Pending,Demand,Usage,Due,Corrected,"
    "EffWeight,FairShare,Ratio,Entitled,Head"
)


def help_format() -> str:
    names = [field.name for field in FIELDS]
    rows = (names[first : first + 4] for first in range(0, len(names), 4))
    return "".join("".join(f"{name:<18}" for name in row).rstrip() + "\n" for row in rows)


@cache
def parser() -> Parser:
    """Return the parser of sfshare; man page and completion are made from it."""
    out = Parser(
        prog="sfshare",
        add_help=False,
        description="Show each quota: what it deserves, holds and has used, and its fair share of what is left over.",
        epilog=ELSEWHERE,
    )
    rows = out.add_argument_group("which rows")
    rows.add_argument(
        "-a", "--all", action="store_true", help="all users below their quotas, not only yourself"
    )
    rows.add_argument(
        "-A", "--accounts", "--quotas", metavar="QUOTAS", help="these quotas only (paths or last names)"
    )
    rows.add_argument("-u", "--users", metavar="USERS", help="these users below their quotas")
    rows.add_argument("-U", "--Users", dest="only_users", action="store_true", help="rows of users only")
    rows.add_argument(
        "-M", "--cluster", "--clusters", metavar="CLUSTER", help="must be the daemon's own cluster"
    )
    look = out.add_argument_group("how they are shown")
    look.add_argument("-l", "--long", action="store_true", help="more columns")
    look.add_argument("-m", "--partition", action="store_true", help="show the partitions of each pool")
    look.add_argument("-n", "--noheader", action="store_true", help="no header")
    look.add_argument(
        "-o", "--format", metavar="FIELDS", help="such as Quota%%30,Allocated; see --helpformat"
    )
    look.add_argument(
        "-p", "--parsable", action="store_true", help="fields of full length, each followed by |"
    )
    look.add_argument("-P", "--parsable2", action="store_true", help="fields of full length, separated by |")
    look.add_argument("--json", nargs="?", const="", metavar="PARSER", help="as JSON")
    look.add_argument("--yaml", nargs="?", const="", metavar="PARSER", help="as YAML")
    add_common(out, help_format())
    out.add_argument("-e", action=Say, text=help_format(), help="same as --helpformat")
    return out


def parse(argv: list[str]) -> argparse.Namespace:
    given = parser().parse(argv)
    if given.json or given.yaml:
        parser().error(f"data parser {given.json or given.yaml!r} is not known; leave it away")
    given.fields = read_fields((LONG if given.long else SHORT) if given.format is None else given.format)
    if given.partition and given.format is None:
        given.fields.insert(2, (BY_NAME["partition"], BY_NAME["partition"].width))
    return given


def read_fields(text: str) -> list[tuple[Field, int]]:
    """Return the fields of "Quota%30,Allocated%-9" with their widths.

    Raises:
        SlurmfairError: one is unknown, or a width out of bounds.
    """
    out = []
    for part in split(text):
        found = re.fullmatch(r"(\w+)(?:%(-?\d{1,6}))?", part)
        field = BY_NAME.get(found[1].lower()) if found else None
        if found is None or field is None:
            near = get_close_matches(part.partition("%")[0], [one.name for one in FIELDS], n=1)
            hint = f"did you mean {near[0]}?" if near else "--helpformat lists them"
            raise SlurmfairError(f"Invalid field requested: {part[:60]!r}; {hint}")
        width = int(found[2]) if found[2] else field.width
        if not 0 < abs(width) <= WIDEST:
            raise SlurmfairError(f"Invalid field width: {width}; a column has 1 to {WIDEST}")
        out.append((field, width))
    if not out:
        raise SlurmfairError("no fields requested; --helpformat lists them")
    return out


def reply(asked: Asked) -> Reply:
    """Return what sfshare prints.

    Raises:
        SlurmfairError: a quota, field or cluster is not understood.
    """
    given = parse(list(asked.argv))
    check_cluster(asked, given.cluster or asked.environment.get("SLURM_CLUSTERS", ""))
    rows = list(share_rows(asked, given))
    err = note(asked, "sfshare", int(asked.view.about.get("hidden", 0)) if given.all else 0, given.verbose)
    code = 1 if asked.away else 0
    if given.json is not None or given.yaml is not None:
        write = as_json if given.json is not None else as_yaml
        return Reply(write("shares", map(share_record, rows), envelope(asked, "sfshare")), err, code)
    return Reply(_lines(given, rows), err, code, shared=not err)


def _lines(given: argparse.Namespace, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table as sshare lays it out: a blank behind each column, dashes below the header."""
    fields: list[tuple[Field, int]] = given.fields
    if given.parsable or given.parsable2:
        end = "|\n" if given.parsable else "\n"
        if not given.noheader:
            yield "|".join(field.name for field, _ in fields) + end
        for row in rows:
            yield "|".join(field.cell(row) for field, _ in fields) + end
        return
    if not given.noheader:
        yield "".join(_fit(field.name, width, "") + " " for field, width in fields) + "\n"
        yield "".join("-" * abs(width) + " " for _, width in fields) + "\n"
    for row in rows:
        yield "".join(_fit(field.cell(row), width, "+") + " " for field, width in fields) + "\n"


def _fit(text: str, width: int, cut: str) -> str:
    """Return the text in its column; one that is too long ends in `cut`, as in sshare."""
    room = abs(width)
    if width_of(text) <= room:
        return fitted(text, room, width > 0)
    return fitted(text, room - len(cut), False) + cut
