"""Run all benchmarks, or those whose name holds one of the words given."""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.harness import BENCHMARKS

MODULES = ("decide", "writes", "shares", "reports")


def main(words: list[str]) -> int:
    for module in MODULES:
        import_module(f"benchmarks.{module}")
    chosen = [run for run in BENCHMARKS if not words or any(word in run.__name__ for word in words)]
    short = 0
    for run in chosen:
        for line in run():
            print(line, flush=True)
            short += not line.ok
    print(f"{short} short" if short else "all ok")
    return 1 if short or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
