"""The files under /etc of a lab, from its settings."""

from __future__ import annotations

from collections.abc import Mapping

from .settings import Settings

GPU_NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
CPU_NODES = ("cpu01",)
NODES = (*GPU_NODES, *CPU_NODES)
STATE = "/var/lib/slurm"
LOGS = "/var/log/slurm"
RUN = "/run/slurm"
DATABASE_PASSWORD = "lab"  # of a database that only this lab's own processes can reach

GRES_CONF = """\
NodeName=gpu[01-03] Name=gpu Type=h100 File=/dev/nvidia[0-7]
NodeName=gpu04 Name=gpu Type=h100 File=/dev/nvidia[0-3]
NodeName=gpu04 Name=gpu Type=a100 File=/dev/nvidia[4-7]
"""
MARIADB_CONF = """\
[mariadbd]
innodb_snapshot_isolation=OFF
innodb_log_file_size=8M
innodb_buffer_pool_size=32M
innodb_flush_log_at_trx_commit=0
innodb_doublewrite=0
innodb_lock_wait_timeout=900
skip_networking
skip_log_bin
performance_schema=OFF
"""


def files(settings: Settings) -> dict[str, tuple[str, str, int]]:
    """Return text, owner and mode of each file by path."""
    return {
        "/etc/hosts": (f"127.0.0.1 localhost {settings.hostname}\n", "root", 0o644),
        "/etc/hostname": (f"{settings.hostname}\n", "root", 0o644),
        "/etc/slurm/slurm.conf": (slurm_conf(settings), "root", 0o644),
        "/etc/slurm/gres.conf": (gres_conf(settings), "root", 0o644),
        "/etc/slurm/cgroup.conf": ("CgroupPlugin=disabled\n", "root", 0o644),
        "/etc/slurm/slurmdbd.conf": (slurmdbd_conf(settings), "slurm", 0o600),
        "/etc/mysql/mariadb.conf.d/99-lab.cnf": (MARIADB_CONF, "root", 0o644),
    }


def slurm_conf(settings: Settings) -> str:
    """Return slurm.conf: the lab's own lines, with the overrides in their places."""
    lines = base_lines(settings)
    places = {key.lower(): key for key in lines}
    for key, value in settings.conf.items():
        lines[places.get(key.lower(), key)] = value
    return "".join(line(key, value) for key, value in lines.items() if value is not None)


def line(key: str, value: str) -> str:
    """Return one line; the key of a node or partition already has its `=`."""
    return f"{key} {value}\n" if "=" in key else f"{key}={value}\n"


def base_lines(settings: Settings) -> dict[str, str | None]:
    """Return the lab's own lines of slurm.conf."""
    return {
        **cluster_lines(settings),
        **SCHEDULING,
        "GresTypes": "gpu,shard" if settings.shards else "gpu",
        **ACCOUNTING,
        "AccountingStoragePort": str(dbd_port(settings)),
        "JobSubmitPlugins": "lua" if settings.gate else None,
        **QUIET,
        **node_lines(settings),
        **PARTITIONS,
    }


def cluster_lines(settings: Settings) -> dict[str, str | None]:
    """Return names, ports and folders."""
    return {
        "ClusterName": settings.name,
        "SlurmctldHost": f"{settings.hostname}(localhost)",
        "SlurmctldPort": str(settings.base_port),
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": f"{STATE}/slurmctld",
        "SlurmdSpoolDir": f"{STATE}/slurmd-%n",
        "SlurmctldPidFile": f"{RUN}/slurmctld.pid",
        "SlurmdPidFile": f"{RUN}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{LOGS}/slurmctld.log",
        "SlurmdLogFile": f"{LOGS}/slurmd-%n.log",
    }


SCHEDULING: dict[str, str | None] = {
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": (
        "defer,sched_interval=5,bf_interval=5,bf_max_job_test=100000,bf_window=10140,"
        "bf_resolution=60,requeue_delay=5"
    ),
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "DefMemPerCPU": "1000",
    "PriorityType": "priority/multifactor",
    "PriorityCalcPeriod": "1",
    "PriorityWeightAge": "0",
    "PriorityWeightAssoc": "0",
    "PriorityWeightFairshare": "0",
    "PriorityWeightJobSize": "0",
    "PriorityWeightPartition": "0",
    "PriorityWeightQOS": "0",
    "PreemptType": None,
    "PreemptMode": None,
    "MaxJobCount": "100000",
    "MaxArraySize": "10001",
    "MinJobAge": "300",
    "ReturnToService": "2",
    "KillWait": "2",
    "CompleteWait": "0",
    "MessageTimeout": "30",
}
ACCOUNTING: dict[str, str | None] = {
    "AccountingStorageType": "accounting_storage/slurmdbd",
    "AccountingStorageHost": "localhost",
    "AccountingStorageEnforce": "associations,limits,qos",
    "AccountingStorageTRES": "gres/gpu,gres/gpu:h100,gres/gpu:a100",
}
# Cheap nodes: no cgroups, no measuring, no affinity.
QUIET: dict[str, str | None] = {
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "JobCompType": "jobcomp/none",
    "MpiDefault": "none",
    "SlurmdParameters": "config_overrides",
    "SlurmctldDebug": "info",
    "SlurmdDebug": "info",
    "MailProg": "/bin/true",
}
PARTITIONS: dict[str, str | None] = {
    "PartitionName=train": ("Nodes=gpu[01-04] Default=YES DefaultTime=10 MaxTime=7-0 State=UP"),
    "PartitionName=interactive": "Nodes=gpu[01-02] DefaultTime=10 MaxTime=7-0 State=UP",
    "PartitionName=cpu": "Nodes=cpu01 DefaultTime=10 MaxTime=7-0 State=UP",
}


def node_lines(settings: Settings) -> dict[str, str | None]:
    """Return the nodes, each with its own port."""
    first = settings.base_port + 10
    size = "CPUs=64 RealMemory=512000"
    shard = f",shard:{settings.shards}" if settings.shards else ""
    return {
        "NodeName=gpu[01-03]": (
            f"NodeHostname=localhost Port=[{first}-{first + 2}] {size} Gres=gpu:h100:8{shard}"
        ),
        "NodeName=gpu04": (
            f"NodeHostname=localhost Port={first + 3} {size} Gres=gpu:h100:4,gpu:a100:4{shard}"
        ),
        "NodeName=cpu01": f"NodeHostname=localhost Port={first + 4} {size}",
    }


def gres_conf(settings: Settings) -> str:
    """Return gres.conf."""
    shards = f"NodeName=gpu[01-04] Name=shard Count={settings.shards}\n"
    return GRES_CONF + (shards if settings.shards else "")


def dbd_port(settings: Settings) -> int:
    """Return the port of slurmdbd."""
    return settings.base_port + 1


def slurmdbd_conf(settings: Settings) -> str:
    """Return slurmdbd.conf."""
    lines: Mapping[str, str] = {
        "AuthType": "auth/munge",
        "DbdHost": settings.hostname,
        "DbdAddr": "localhost",
        "DbdPort": str(dbd_port(settings)),
        "SlurmUser": "slurm",
        "LogFile": f"{LOGS}/slurmdbd.log",
        "PidFile": f"{RUN}/slurmdbd.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StoragePass": DATABASE_PASSWORD,
        "StorageLoc": "slurm_acct_db",
        "DebugLevel": "info",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())
