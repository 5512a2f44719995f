"""Man pages and completion from the parsers and docs/man: `python docs/build.py` writes them into conf/share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from slurmfair import __version__
from slurmfair.cli import columns, explain, history, main, prio, share, status, top
from slurmfair.cli.settings import parser as settings_parser
from slurmfair.daemon import parser as daemon_parser
from slurmfair.reporter import parser as reporter_parser

HERE = Path(__file__).parent
OUT = HERE.parent / "conf" / "share"
Parser = argparse.ArgumentParser


class Stolen(Exception):
    """Carries the parser of a command that makes it inside its entry."""

    def __init__(self, parser: Parser) -> None:
        super().__init__()
        self.parser = parser


def stolen(entry: Callable[[list[str]], int]) -> Parser:
    """Return the parser that a command parses its arguments with."""
    plain = Parser.parse_args

    def steal(self: Parser, *args: object, **more: object) -> argparse.Namespace:
        raise Stolen(self)

    Parser.parse_args = steal  # type: ignore[assignment, method-assign]
    try:
        entry([])
    except Stolen as found:
        return found.parser
    finally:
        Parser.parse_args = plain  # type: ignore[method-assign]
    raise AssertionError(f"{entry} parses nothing")


def commands() -> dict[str, Parser]:
    """Return the parser of each subcommand that there is."""
    known: dict[str, Parser] = {
        "status": status.parser(),
        "explain": explain.parser(),
        "set": settings_parser("set"),
        "unset": settings_parser("unset"),
        "top": top.parser(),
        "history": history.parser(),
        "serve": reporter_parser(),
    }
    for name, (module, function, _) in main.OWN.items():
        with suppress(ModuleNotFoundError):
            known.setdefault(name, stolen(getattr(import_module(module), function)))
    return known


PARSERS: dict[str, Callable[[], Parser]] = {
    "sfprio": prio.parser,
    "sfshare": share.parser,
    "slurmfaird": daemon_parser,
}

# roff


def escaped(text: str) -> str:
    """Return plain text for roff."""
    text = (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace("`", "\\(ga")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
    )
    return "\\&" + text if text.startswith((".", "'")) else text


def inline(text: str) -> str:
    """Return text with **bold**, `code` and links for roff."""
    out = []
    for piece in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\[[^]]+\]\([^)]+\))", text):
        if piece.startswith("`"):
            out.append(f"\\fB{escaped(piece[1:-1])}\\fR")
        elif piece.startswith("**"):
            out.append(f"\\fB{escaped(piece[2:-2])}\\fR")
        elif piece.startswith("["):
            out.append(escaped(piece[1:].partition("]")[0]))
        else:
            out.append(escaped(piece))
    return "".join(out)


def options(parser: Parser) -> str:
    """Return the options as Slurm's pages show them."""
    lines = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in action.option_strings)
        names += _value(action) or ("" if names else f"\\fI{escaped(str(action.metavar or action.dest))}\\fR")
        lines += [".TP", names, inline(_help(parser, action))]
    return "\n".join(lines)


def _value(action: argparse.Action) -> str:
    if not action.option_strings or action.nargs == 0:
        return ""
    name = f"\\fI{escaped(str(action.metavar or action.dest.upper()))}\\fR"
    return f"[={name}]" if action.nargs == "?" else f"={name}"


def _help(parser: Parser, action: argparse.Action) -> str:
    text = (action.help or "").strip()
    text = text % {"default": _default(action.default), "prog": parser.prog}
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _default(value: object) -> str:
    return str(value)


def synopsis(parser: Parser) -> str:
    text = " ".join(parser.format_usage().removeprefix("usage: ").split())
    name, _, rest = text.partition(" ")
    return f"\\fB{escaped(name)}\\fR {escaped(rest)}"


def fields() -> str:
    lines = []
    for one in columns.FIELDS:
        names = ", ".join(one.names)
        lines += [
            ".TP",
            f"\\fB%{one.letter}\\fR  {escaped(names)}",
            escaped(f"{one.about[:1].upper()}{one.about[1:]} (header {one.header})."),
        ]
    return "\n".join(lines)


def command_pages() -> str:
    lines = []
    for parser in commands().values():
        lines += [f".SS {escaped(synopsis_words(parser))}", inline(parser.description or ""), options(parser)]
        if parser.epilog:
            lines += [".PP", inline(parser.epilog)]
    return "\n".join(lines)


def synopsis_words(parser: Parser) -> str:
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


def filled(line: str) -> str:
    """Return what stands for a line such as {{options sfprio}}."""
    what, _, name = line.strip("{} \n").partition(" ")
    if what == "commands":
        return command_pages()
    if what == "fields":
        return fields()
    return {"options": options, "synopsis": synopsis}[what](PARSERS[name]())


def blocks(markdown: str) -> Iterator[list[str]]:
    """Yield headings, examples, tables, lists and paragraphs, each as its lines; comments are left out."""
    block: list[str] = []
    fenced = False
    for line in [*markdown.splitlines(), ""]:
        fence = line.startswith("```")
        alone = line.startswith(("#", "{{")) or (fence and not fenced) or not line.strip()
        new_kind = bool(block) and line.startswith("|") != block[0].startswith("|")
        if not fenced and (alone or new_kind) and block:
            yield block
            block = []
        if line.strip() or fenced:
            block.append(line)
        if not fenced and line.startswith(("#", "{{", "<!--")):
            if not line.startswith("<!--"):
                yield block
            block = []
        if fence and fenced:
            yield block
            block = []
        fenced ^= fence


def roff(markdown: str) -> Iterator[str]:
    """Yield the lines of a page for headings, paragraphs, lists, tables and examples."""
    for lines in blocks(markdown):
        if lines[0].startswith("#"):
            level, _, title = lines[0].partition(" ")
            yield f".SH {escaped(title.upper())}" if len(level) < 3 else f".SS {escaped(title)}"
        elif lines[0].startswith("{{"):
            yield filled(lines[0])
        elif lines[0].startswith("```"):
            yield from (".PP", ".RS 4", ".EX", *map(escaped, lines[1:-1]), ".EE", ".RE")
        elif lines[0].startswith("|"):
            yield from _table(lines)
        elif re.match(r"(-|\d+\.) ", lines[0]):
            yield from _items(lines)
        else:
            yield from (".PP", inline(" ".join(line.strip() for line in lines)))


def _items(lines: list[str]) -> Iterator[str]:
    for item in re.split(r"\n(?=(?:-|\d+\.) )", "\n".join(lines)):
        mark, _, text = item.partition(" ")
        yield ".IP \\(bu 2" if mark == "-" else f".IP {mark} 4"
        yield inline(" ".join(text.split()))


def _table(lines: list[str]) -> Iterator[str]:
    """A row is its first cell and the others below."""
    head, _, *rows = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines)
    for row in rows:
        yield ".TP"
        yield inline(row[0]) or "\\&"
        cells = [
            cell if n == len(row) - 1 else f"{name}: {cell}"
            for n, (name, cell) in enumerate(zip(head, row, strict=False))
            if n and cell
        ]
        yield inline("; ".join(cells)) or "\\&"


def page(name: str, section: str, text: str) -> str:
    """Return a man page."""
    title = {"1": "Slurmfair Commands", "5": "Slurmfair Configuration File", "8": "Slurmfair Daemon"}[section]
    head = f'.TH {escaped(name)} "{section}" "" "slurmfair {__version__}" "{title}"'
    return (
        "\n".join(
            ['.\\" Made by docs/build.py; change docs/man or the parsers.', head, ".nh", ".ad l", *roff(text)]
        )
        + "\n"
    )


def pages() -> dict[str, str]:
    """Return every page by its path below share."""
    out = {}
    for source in sorted((HERE / "man").glob("*.md")):
        name, _, section = source.stem.rpartition(".")
        out[f"man/man{section}/{source.stem}"] = page(name, section, source.read_text())
    text = (HERE / "policy-file.md").read_text().partition("\n")[2]
    text = (
        "# NAME\n\nslurmfair.yaml - the policy of slurmfair: quotas, fair share, queue policies\n\n# DESCRIPTION\n\n"
        + text
    )
    text += "\n# SEE ALSO\n\n**slurmfair**(1), **slurmfaird**(8)\n"
    out["man/man5/slurmfair.yaml.5"] = page("slurmfair.yaml", "5", text)
    return out


# completion

PREAMBLE = {
    "bash": """
# a list with commas: what is before the last one stays
_slurmfair_listed() {
  local current="$1" before="" words; shift
  words="$(printf %s "$*" | tr -d '\\044\\140\\042\\047\\134')"  # compgen would run what stands in $(...)
  case "$current" in *,*) before="${current%,*},";; esac
  compgen -P "$before" -W "$words" -- "${current##*,}"
}
_slurmfair_jobs() { _slurmfair_listed "$1" "$(sfprio -h -o %i -u "$(id -un)" 2>/dev/null)"; }
_slurmfair_quotas() { _slurmfair_listed "$1" "$(sfshare -n -P -o Quota 2>/dev/null | sort -u)"; }
_slurmfair_pools() { _slurmfair_listed "$1" "$(sfshare -n -P -o Pool 2>/dev/null | sort -u)"; }
_slurmfair_partitions() { _slurmfair_listed "$1" "$(sfshare -n -P -o Partition 2>/dev/null | tr , '\\n' | sort -u)"; }
_slurmfair_users() { _slurmfair_listed "$1" "$(sfshare -a -U -n -P -o User 2>/dev/null | sort -u)"; }
""",
    "zsh": """
_slurmfair_listed() { local -a found; found=(${(fu)"$(print -r -- $1 | tr -d ' ' | tr , '\\n')"}); _sequence compadd - $found }
_slurmfair_jobs() { _slurmfair_listed "$(sfprio -h -o %i -u $USERNAME 2>/dev/null)" }
_slurmfair_quotas() { _slurmfair_listed "$(sfshare -n -P -o Quota 2>/dev/null)" }
_slurmfair_pools() { _slurmfair_listed "$(sfshare -n -P -o Pool 2>/dev/null)" }
_slurmfair_partitions() { _slurmfair_listed "$(sfshare -n -P -o Partition 2>/dev/null)" }
_slurmfair_users() { _slurmfair_listed "$(sfshare -a -U -n -P -o User 2>/dev/null)" }
""",
}
LISTS = {
    "jobs": "jobs",
    "quota": "quotas",
    "accounts": "quotas",
    "partition": "partitions",
    "user": "users",
    "users": "users",
    "pool": "pools",
}


def completable(parser: Parser) -> Parser:
    """Return the parser with a list of live values for job ids, quotas, partitions, users and pools."""
    for action in parser._actions:
        takes_value = action.nargs != 0 and not isinstance(action, argparse._SubParsersAction)
        if action.dest in LISTS and takes_value:
            action.complete = dict.fromkeys(PREAMBLE, f"_slurmfair_{LISTS[action.dest]}")  # type: ignore[attr-defined]
    return parser


def whole() -> Parser:
    """Return one parser of slurmfair and all its subcommands."""
    out = Parser(prog="slurmfair", add_help=True)
    below = out.add_subparsers()
    texts = main.ASKED | {name: text for name, (_, _, text) in main.OWN.items()}
    for name, parser in commands().items():
        below.add_parser(
            name, parents=[completable(parser)], add_help=False, help=texts[name], conflict_handler="resolve"
        )
    return out


def completions() -> dict[str, str]:
    """Return completion for bash and zsh by path below share."""
    import shtab

    parsers = {
        "sfprio": completable(prio.parser()),
        "sfshare": completable(share.parser()),
        "slurmfair": whole(),
    }
    out = {}
    for name, parser in parsers.items():
        out[f"bash-completion/completions/{name}"] = shtab.complete(parser, "bash", preamble=PREAMBLE)
        out[f"zsh/site-functions/_{name}"] = shtab.complete(parser, "zsh", preamble=PREAMBLE)
    return {path: re.sub(r"[ \t]+(?=\n)", "", text).rstrip("\n") + "\n" for path, text in out.items()}


def build(out: Path) -> None:
    for path, text in (pages() | completions()).items():
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
