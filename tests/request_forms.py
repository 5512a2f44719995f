"""Every form in which a job can ask for GPUs, and what it is to be read as (SLURM.md 12)."""

from __future__ import annotations

# Requests, and what is wanted before the start: GPUs, CPUs, MiB, nodes, GPU type.
FORMS = [
    ("--gres=gpu:2", 2, 1, 1000, 1, ""),
    ("--gres=gpu:h100:2", 2, 1, 1000, 1, "h100"),
    ("--gres=gpu", 1, 1, 1000, 1, ""),
    ("-G 3", 3, 1, 1000, 1, ""),
    ("-G h100:3", 3, 1, 1000, 1, "h100"),
    ("-G a100:2", 2, 1, 1000, 1, "a100"),
    ("-N2 --gpus-per-node=2", 4, 2, 2000, 2, ""),
    ("-N2 --gpus-per-node=h100:2", 4, 2, 2000, 2, "h100"),
    ("-n4 --gpus-per-task=1", 4, 4, 4000, 1, ""),
    ("-n4 --gpus-per-task=h100:1", 4, 4, 4000, 1, "h100"),
    ("-n2 --tres-per-task=gres/gpu:1", 2, 2, 2000, 1, ""),
    ("--gpus-per-socket=1 --sockets-per-node=2", 2, 1, 1000, 1, ""),
    ("-n3 --ntasks-per-gpu=1 --gpus=3", 3, 3, 3000, 1, ""),
    ("-n4 --ntasks-per-gpu=2", 2, 4, 4000, 1, ""),
    ("--gres=gpu:h100:1,gpu:a100:1", 2, 1, 1000, 1, "a100,h100"),
    ("-N2 --gres=gpu:4", 8, 2, 2000, 2, ""),
    ("-N1-3 --gres=gpu:2", 2, 1, 1000, 1, ""),
    ("-N2-2 -G 5", 5, 2, 2000, 2, ""),
    ("-G2 --mem-per-gpu=30", 2, 1, 60, 1, ""),
    ("-G2 --cpus-per-gpu=4", 2, 8, 8000, 1, ""),
    ("-G2 --mem=0", 2, 1, 512000, 1, ""),
    ("-c4", 0, 4, 4000, 1, ""),
    ("--exclusive", 8, 64, 64000, 1, ""),
    ("--exclusive --gres=gpu:1", 8, 64, 64000, 1, ""),
    ("--exclusive -G2 --mem=2000", 8, 64, 2000, 1, ""),
    ("--exclusive -N2", 16, 128, 128000, 2, ""),
    ("--exclusive=user -G1", 1, 1, 1000, 1, ""),
    ("--exclusive -p cpu", 0, 64, 64000, 1, ""),
    ("--gres=shard:1", 1, 1, 1000, 1, ""),
    ("--gres=shard:2", 1, 1, 1000, 1, ""),
    ("-N2 --gres=shard:1", 2, 2, 2000, 2, ""),
]
