"""The policy in force: the file, once the cluster agrees with it, and the overrides laid over it.

A policy that is refused, by itself or by the cluster, leaves the one before in force (DESIGN 4).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from slurmfair.config import Config
from slurmfair.config_cluster import check_against_cluster, wishes_of
from slurmfair.config_file import load_policy
from slurmfair.errors import PolicyError
from slurmfair.model import Reading
from slurmfair.overrides import overridden_where_possible
from slurmfair.slurm.settings import Settings, findings
from slurmfair.state import Override

log = logging.getLogger(__name__)


@dataclass(slots=True)
class InForce:
    """`config` is what cycles use; `file` is the policy file as last read, which may still be refused."""

    path: Path
    file: Config
    config: Config
    accepted: Config | None = None  # the file that the cluster agreed to
    overrides: tuple[Override, ...] = ()
    refused: str = ""
    refused_overrides: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def read_again(self) -> None:
        """Read the file; it comes into force with the next cycle, if the cluster agrees."""
        try:
            self.file = load_policy(self.path)
            self.refused = ""
            log.info("policy read again from %s", self.path)
        except PolicyError as err:
            self._refuse(err)

    def settle(self, reading: Reading, settings: Settings, overrides: tuple[Override, ...]) -> None:
        """Put a new file or new overrides into force.

        Raises:
            PolicyError: the cluster does not agree with the first policy, so there is none to go on with.
        """
        if self.file is self.accepted and overrides == self.overrides:
            return
        config, refused_overrides = overridden_where_possible(self.file, overrides)
        found = check_against_cluster(config, reading.partitions, reading.nodes)
        asked = findings(settings, wishes_of(config))
        errors = found.errors + [str(one) for one in asked if one.severity == "error"]
        if errors and self.accepted is None:
            raise PolicyError(errors)
        if errors:
            self._refuse(PolicyError(errors))
            return
        for text in refused_overrides:
            log.error("override refused, the others are in force: %s", text)
        self.config, self.accepted = config, self.file
        self.overrides, self.refused_overrides = overrides, refused_overrides
        self.warnings = (*config.warnings, *found.warnings)
        for text in self.warnings:
            log.warning("policy: %s", text)

    def _refuse(self, err: PolicyError) -> None:
        if self.accepted is not None:
            self.file = self.accepted
        self.refused = str(err)
        log.error("policy refused, the running one stays in force: %s", err)
