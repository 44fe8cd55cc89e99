"""Attendees' servers as jobs of Slurm; who waits for one is told why."""

import asyncio

from batchspawner import MultiSlurmSpawner
from traitlets import Unicode

from ddl.launcher.slurm import JobState


def sentence(job: str, status: str) -> str:
    """Return a sentence about a job, from what `squeue` says with `OnSlurm`'s format; "" where it says nothing."""
    state, reason, start, _ = (*status.split("|"), "", "", "")[:4]
    return JobState(job, state, reason, "" if start == "N/A" else start).waiting or {
        "CONFIGURING": f"Slurm job {job} has its node, which gets ready",
        "RUNNING": f"Slurm job {job} runs: your server starts",
    }.get(state, "")


class OnSlurm(MultiSlurmSpawner):
    """Starts servers as jobs; the page on which one waits says Slurm's reason, and when it expects the job to start."""

    batch_query_cmd = Unicode("squeue -h -j {job_id} -o '%T|%r|%S| %B'").tag(config=True)

    @property
    def waiting(self) -> str:
        """What the page of who waits says (templates/spawn_pending.html)."""
        return sentence(self.job_id, self.job_status)

    async def progress(self):
        before = ""
        while True:
            if self.waiting not in ("", before):
                before = self.waiting
                yield {"message": before}
            await asyncio.sleep(self.startup_poll_interval)
