"""What Slurm's error numbers mean to the daemon (SLURM.md 10). The numbers are the same from 22.05 to 26.05."""

from __future__ import annotations

from slurmfair.errors import SlurmfairError, SlurmRefused, SlurmUnavailable
from slurmfair.slurm.cluster import Result

NO_CHANGE = 1900  # not an error: nothing has changed since the time that was asked about
ANY_ERROR = -1
PLUGIN_SAYS_NO = (ANY_ERROR, 1)  # lua returns slurm.ERROR
VERSION_MISMATCH = 1005
NO_AUTHENTICATION = (1007, 6000, 6001, 6004, 6007)
ACCESS_DENIED, NOT_YOUR_JOB, NOT_PERSISTENT = 2002, 2010, 2095
NO_RIGHTS = (ACCESS_DENIED, NOT_YOUR_JOB, NOT_PERSISTENT)
STANDBY = (2027, 2131)
MOVED_ON = (2017, 2020, 2021, 2073, 2083, 2084, 2085, 2086)
HELD = 2042
CRON_JOB = 2096


def is_away(number: int) -> bool:
    """Return whether an error number says that a message did not get through or was not answered."""
    return (
        1000 <= number < 1100
        or 1800 <= number < 1900
        or number in STANDBY
        or 5000 <= number < 5100
        or number in NO_AUTHENTICATION
        or 1 < number < 200  # the system's own, such as "connection refused"
        or 7000 <= number < 7100
    )


def result_of_write(number: int) -> Result | None:
    """Return what became of a change that Slurm answered with this number, None if it is to be raised."""
    if number == 0:
        return Result.OK
    if number in MOVED_ON:
        return Result.MOVED_ON
    if number == HELD:
        return Result.REREAD
    if number in NO_RIGHTS or is_away(number):
        return None
    return Result.SKIP  # a cron job, the site's plugin, or a rule of Slurm that we do not know


def fault(number: int, message: str, doing: str, account: str) -> SlurmfairError:
    """Return the error to raise when Slurm answered a request with this number."""
    said = f"{doing}: {message} (Slurm error {number})"
    if number in NO_RIGHTS:
        return SlurmRefused(f"{said}; {account} needs more rights: {mend_rights(account)}")
    if number == VERSION_MISMATCH:
        return SlurmRefused(f"{said}; build pyslurm and slurmfair for the Slurm release of the cluster")
    if number in NO_AUTHENTICATION:
        return SlurmUnavailable(f"{said}; does munge run on this host? systemctl start munge")
    return SlurmUnavailable(said)


def mend_rights(account: str) -> str:
    """Return the command that gives an account the rights it needs (SLURM.md 9)."""
    return (
        f"sacctmgr -i add user {account} account=root adminlevel=Administrator"
        f" (if Slurm knows it already: sacctmgr -i modify user {account} set adminlevel=Administrator)"
    )
