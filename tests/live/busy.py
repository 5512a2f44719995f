"""A site whose queues stand still, for what people see of it: every GPU is taken for longer than the tests last."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurmfair.model import Outcome
from tests.live.policies import LEVELS, gpu_pool, group, quota
from tests.live.site import Site

POLICY = gpu_pool(
    quota("vision", deserved=8, limit=12, policy="fifo"),
    group(
        "llm",
        quota("pretrain", "llm-pretrain", deserved=8, policy="intelligent"),
        quota("eval", "llm-eval", deserved=8, policy="round_robin"),
        deserved=16,
    ),
    quota("speech", deserved=8, policy="balance"),
    top=(LEVELS,),
)
WAITS = 73  # where the last column of the waiting jobs begins on top's screen


@dataclass(frozen=True)
class Busy:
    """The site, and its jobs by a word for each."""

    site: Site
    jobs: dict[str, int]

    def settled(self, screen: str) -> str:
        """Return a screen with words in place of what differs from run to run: cluster, ids, ages, times of the day."""
        head, *lines = screen.splitlines()
        head = head.replace(f"slurmfair on {self.site.lab.settings.name}:", "slurmfair on CLUSTER:")
        out, settle = [re.sub("decided .* ago", "decided AGE ago", head)], str
        for line in lines:
            out.append(settle(line))
            if line.startswith("QUOTA ") and "JOBID" in line:
                settle = self._waiting
            elif line.startswith("LAST DECISIONS"):
                settle = self._decision
        return "".join(f"{line.rstrip()}\n" for line in out)

    def _waiting(self, line: str) -> str:
        """Settle a line about a waiting job: JOBID, REASON and WAITS."""
        if len(line) < WAITS:
            return line
        job, reason = self._named(line[15:27]), self._named(line[59:72])
        return f"{line[:15]}{job:<12.12}{line[27:59]}{reason:<13.13} AGE"

    def _decision(self, line: str) -> str:
        """Settle a line about a decision: time and job."""
        return f"hh:mm:ss  {self._named(line[10:20]).strip():>10}{line[20:]}" if line else ""

    def _named(self, cell: str) -> str:
        """Return a cell with the job's word in place of its id."""
        words = {str(job): f"<{word}>" for word, job in self.jobs.items()}
        return re.sub(r"(?<![\d\[-])\d+(?![\d-])", lambda found: words.get(found[0], found[0]), cell)


def queued(site: Site) -> dict[str, int]:
    """Submit the jobs and wait until there is nothing left to decide; return their ids by a word for each."""
    submit = site.submit
    jobs = {
        "v": submit("--gpus=h100:8", "-N1", "-w", "gpu01"),
        "p": submit("--gpus=h100:8", "-N1", "-w", "gpu02", user="cid"),
        "e": submit("--gpus=h100:8", "-N1", "-w", "gpu03", "-A", "llm-eval", user="dora"),
        "s": submit("--gpus=8", "-N1", "-w", "gpu04", user="eve"),
    }
    site.wait(lambda: len(site.running(jobs.values())) == 4, "every GPU taken")
    jobs |= {
        "v1": submit("--gpus=h100:8", "-N1"),
        "v2": submit("--gpus=h100:1", user="bob"),
        "p1": submit("--gpus=h100:8", "-N1", "--qos=urgent", user="cid"),
        "p2": submit("--gpus=h100:2", "--qos=scavenger", user="cid"),
        "e1": submit("--gpus=h100:4", "-N1", "-A", "llm-eval", user="dora"),
        "e2": submit("--gpus=h100:1", "--array=3-9", "-A", "llm-eval", user="dora"),
        "s1": submit("--gpus=h100:8", "-N1", user="finn"),
    }
    site.start()
    site.wait(lambda: site.outcome(jobs["v1"]) == Outcome.LIMIT, "judged")
    site.wait(lambda: {jobs["v2"], jobs["p2"]} <= set(site.held_by_us(jobs.values())), "held")
    site.wait(lambda: decided_the_same(site), "nothing new to decide", every_s=0)
    return jobs


def decided_the_same(site: Site) -> bool:
    """Tell whether some cycles pass without a decision."""
    before = site.decisions()
    site.wait_cycles(4)
    return site.decisions() == before
