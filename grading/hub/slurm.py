"""Attendees' servers as Slurm jobs, with the reason for a wait."""

import asyncio

from batchspawner import MultiSlurmSpawner
from traitlets import Unicode

from ddl.job.slurm import JobState


def sentence(job: str, status: str) -> str:
    """Return a sentence about a job from `squeue` output in `OnSlurm`'s format; "" if there is none."""
    state, reason, start, _ = (*status.split("|"), "", "", "")[:4]
    return JobState(job, state, reason, "" if start == "N/A" else start).waiting or {
        "CONFIGURING": f"Slurm job {job} has its node, which gets ready",
        "RUNNING": f"Slurm job {job} runs: your server starts",
    }.get(state, "")


class OnSlurm(MultiSlurmSpawner):
    """Spawner for Slurm jobs, whose waiting page has Slurm's reason and expected start."""

    batch_query_cmd = Unicode("squeue -h -j {job_id} -o '%T|%r|%S| %B'").tag(config=True)

    @property
    def waiting(self) -> str:
        """Return the text of the waiting page (templates/spawn_pending.html)."""
        return sentence(self.job_id, self.job_status)

    async def progress(self):
        before = ""
        while True:
            if self.waiting not in ("", before):
                before = self.waiting
                yield {"message": before}
            await asyncio.sleep(self.startup_poll_interval)
