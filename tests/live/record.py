"""Records what a lab's Slurm says about jobs and nodes, for tests that run without one.

    python -m tests.live.record tests/data

writes slurm-<version>.json: run it for each release that is to be read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.lab import Lab
from tests.live.agent import Agent
from tests.live.edge.test_read import submit_situations
from tests.request_forms import FORMS


def recorded(lab: Lab) -> dict[str, Any]:
    """Return raw columns and node records, with the requests and situations that they come from."""
    ids = lab.submit_many([[*form.split(), "-H"] for form, *_ in FORMS], user="ann")
    with Agent(lab) as agent:
        situations = submit_situations(lab)
        agent.wait_for_reason(situations["array"], "JobArrayTaskLimit")
        raw: dict[str, Any] = agent.ask("raw")
    forms = {form: job_id for (form, *_), job_id in zip(FORMS, ids, strict=True)}
    return {"forms": forms, "situations": situations, **raw}


def main() -> None:
    """Start a lab, record, end it."""
    folder = Path(sys.argv[1])
    with TemporaryDirectory() as above, Lab(dir=f"{above}/lab", name="record", shards=16) as lab:
        lab.set_conf(
            {"AccountingStorageTRES": "gres/gpu,gres/gpu:h100,gres/gpu:a100,gres/shard"}, restart=True
        )
        lab.set_conf({"ScronParameters": "enable"})
        lab.install_project()
        found = recorded(lab)
    target = folder / f"slurm-{found['version']}.json"
    target.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"record: {len(found['numbers']['job_id'])} jobs in {target}")


if __name__ == "__main__":
    main()
