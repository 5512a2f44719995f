"""Errors, split by what the operator does next. Each names the culprit, the reason and the way out."""

from __future__ import annotations


class SlurmfairError(Exception):
    """Base of all errors that are shown to people without a traceback."""


class PolicyError(SlurmfairError):
    """The policy file cannot be used; `problems` lists every mistake found in one run."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SlurmUnavailable(SlurmfairError):
    """Slurm (or munge, or slurmdbd) does not answer: wait and try again."""


class SlurmRefused(SlurmfairError):
    """Slurm refuses us for want of rights or a setting: somebody has to mend it."""


class BadRecord(SlurmfairError):
    """A record from Slurm that cannot be understood: skip it, say so once."""


class StateError(SlurmfairError):
    """The state file cannot be used."""


class DaemonUnreachable(SlurmfairError):
    """The daemon's socket does not answer."""


class MungeUnavailable(SlurmfairError):
    """munge is not here or does not answer: start it, and ask again."""


class NotAuthentic(SlurmfairError):
    """A credential proves nothing here: keys, clocks or accounts differ, or somebody uses one twice."""
