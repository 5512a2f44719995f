"""pyslurm's objects as columns."""

from __future__ import annotations

from slurmfair.slurm.attributes import text_of


class Odd:
    """A record with a text that pyslurm cannot decode."""

    def __getattr__(self, name: str) -> object:
        if name == "name":
            raise UnicodeDecodeError("utf-8", b"n\xff", 1, 2, "invalid start byte")
        return None


def test_bytes_that_are_no_utf_8_are_kept_as_our_own_edge_keeps_them() -> None:
    assert text_of(Odd(), "name") == "n\udcff"
    assert text_of(Odd(), "comment") == ""
