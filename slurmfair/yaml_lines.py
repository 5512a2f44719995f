"""YAML with line numbers, read so that no file can hurt: text stays text, duplicates are mistakes, aliases are bounded.

The tree is built from libyaml's events rather than by PyYAML's loader, because the loader lets the second of two
equal keys win, turns `1:00:00` into 3600 and `no` into false, and follows aliases without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import yaml

from slurmfair.problems import Problems, shortened

MAX_BYTES = 1_000_000
MAX_DEPTH = 60
MAX_NODES = 500_000  # after aliases and merges; a file of MAX_BYTES without them stays below
MERGE = "<<"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the second is 20 times slower, but reads the same


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it stands in the file. `plain` is false for text in quotes."""

    text: str
    plain: bool
    line: int
    size: int = 1

    @property
    def empty(self) -> bool:
        """Whether the file gives no value: nothing, `~` or `null`."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]
    line: int
    size: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys in the order of the file; `key_lines` says where each stands."""

    entries: dict[str, Node]
    key_lines: dict[str, int]
    line: int
    size: int = 1


Node: TypeAlias = Scalar | Sequence | Mapping


@dataclass(slots=True)
class _Open:
    """A sequence or mapping whose end has not been seen."""

    mapping: bool
    line: int
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)
    merged: list[Mapping] = field(default_factory=list)
    merge_line: int | None = None
    key: Scalar | None = None
    size: int = 1


def read_yaml(text: str, problems: Problems) -> Node | None:
    """Return the tree of the one document in `text`; None where it is empty or not YAML.

    Mistakes of form go to `problems`: duplicate keys, tags, tabs, aliases to themselves, too deep or too large.
    """
    if not _readable(text, problems):
        return None
    builder = _Builder(problems)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if line not in problems.lines:
            problems.add(line, builder.path(), f"not YAML: {error.problem or error.context}")
        return None
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position]
        problems.add(before.count(b"\n") + 1, "", f"not YAML: {error.reason}")
        return None
    except _Hopeless:
        return None
    return builder.root


def _readable(text: str, problems: Problems) -> bool:
    """Report what libyaml would not get through, or would explain badly."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        problems.add(1, "", "not UTF-8 text")
        return False
    if size > MAX_BYTES:
        problems.add(1, "", f"{size:,} bytes; a policy file may have {MAX_BYTES:,}")
        return False
    for number, line in enumerate(text.split("\n"), 1):
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in indent and line.strip() and not line.lstrip().startswith("#"):
            problems.add(number, "", "a tab; indent with spaces")
    return True


class _Hopeless(Exception):
    """A mistake after which reading on makes no sense; it has been reported."""


class _Builder:
    """Turns events into nodes, without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.root: Node | None = None
        self._problems = problems
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}  # None while the node is being built

    def path(self) -> str:
        """Return where in the tree the next node goes, as a.b[2]."""
        path = ""
        for part in self._open:
            if not part.mapping:
                path += f"[{len(part.items)}]"
            elif part.key is not None:
                path += f".{shortened(part.key.text)}"
        return path.lstrip(".")

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the document."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.ScalarEvent):
            self._refuse_tag(event, line)
            scalar = Scalar(event.value, not event.style, line)
            self._remember(event.anchor, scalar)
            self._place(scalar, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._refuse_tag(event, line)
            self._begin(isinstance(event, yaml.MappingStartEvent), event.anchor, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._place(self._aliased(event.anchor or "", line), line)
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            self._stop(line, "a second document; a policy file holds one")

    def _stop(self, line: int, reason: str) -> NoReturn:
        self._problems.add(line, self.path(), reason)
        raise _Hopeless

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, line: int) -> None:
        if event.tag is not None:
            self._problems.add(
                line, self.path(), f"tag {shortened(event.tag)}; leave it out, keys say what a value is"
            )

    def _remember(self, anchor: str | None, node: Node | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node

    def _aliased(self, anchor: str, line: int) -> Node:
        node = self._anchors.get(anchor)
        if node is None:
            loops = anchor in self._anchors
            self._stop(
                line, f"*{shortened(anchor)} " + ("contains itself" if loops else "has no anchor before it")
            )
        return node

    def _begin(self, mapping: bool, anchor: str | None, line: int) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._stop(line, f"nested deeper than {MAX_DEPTH} levels")
        if self._open and self._open[-1].mapping and self._open[-1].key is None:
            self._stop(line, "a list or mapping as a key; keys are plain words")
        self._remember(anchor, None)
        self._open.append(_Open(mapping, line, anchor))

    def _end(self) -> None:
        done = self._open.pop()
        node: Node
        if done.mapping:
            self._merge(done)
            node = Mapping(done.entries, done.key_lines, done.line, done.size)
        else:
            node = Sequence(tuple(done.items), done.line, done.size)
        self._remember(done.anchor, node)
        self._place(node, done.line)

    def _place(self, node: Node, line: int) -> None:
        """Put a finished node where it belongs: the root, a list, a key, or the value of a key."""
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.size += node.size
        if parent.size > MAX_NODES:
            self._stop(line, f"more than {MAX_NODES:,} values once aliases are followed")
        if not parent.mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = self._key(node, line)
        else:
            self._enter(parent, parent.key, node)
            parent.key = None

    def _key(self, node: Node, line: int) -> Scalar:
        if not isinstance(node, Scalar):
            self._stop(line, "a list or mapping as a key; keys are plain words")
        return node if node.line == line else Scalar(node.text, node.plain, line)  # an alias has its own line

    def _enter(self, parent: _Open, key: Scalar, value: Node) -> None:
        merges = key.text == MERGE and key.plain
        first = parent.merge_line if merges else parent.key_lines.get(key.text)
        if first is not None:
            self._problems.add(key.line, self.path(), f"given twice, first in line {first}; remove one")
        elif merges:
            parent.merge_line = key.line
            parent.merged = list(self._merge_sources(value, key.line))
        else:
            parent.entries[key.text] = value
            parent.key_lines[key.text] = key.line

    def _merge_sources(self, value: Node, line: int) -> Iterator[Mapping]:
        for source in value.items if isinstance(value, Sequence) else (value,):
            if isinstance(source, Mapping):
                yield source
            else:
                self._problems.add(line, self.path(), "merges something that is not a mapping")

    def _merge(self, done: _Open) -> None:
        """Add what `<<` brings and the mapping does not say itself; the first of several sources wins."""
        for source in done.merged:
            for key, value in source.entries.items():
                if key not in done.entries:
                    done.entries[key] = value
                    done.key_lines[key] = source.key_lines[key]
