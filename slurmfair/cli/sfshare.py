"""Entry of sfshare."""

from __future__ import annotations

import sys

from slurmfair.client import run


def main() -> int:
    return run("sfshare", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
