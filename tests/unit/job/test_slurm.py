"""Parsing of Slurm's output, from stand-ins for its programs (`tests/slurm` uses real ones)."""

import pytest

from ddl import attach, launch, runs
from ddl.job.site import Site, SiteError
from ddl.job.slurm import Allocation, JobState, SlurmError, SlurmJob, submit
from helpers import program


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return a function that puts a program on the path."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return lambda name, text: program(tmp_path / name, f"#!/bin/sh\n{text}\n")


@pytest.mark.parametrize(
    "scontrol, gpus",
    [
        ("echo '     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=gpu:a100:2(IDX:0-1)'", 2),
        (
            "printf '   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:3g.20gb:1,gpu:2,shard:4\\n Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1\\n'",
            1,
        ),
        ("echo '     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES='", None),
        ("echo 'Unable to contact slurm controller' >&2; exit 1", None),
    ],
)
def test_an_allocation_has_the_gpus_that_slurm_lists_for_its_job(stand_in, monkeypatch, scontrol, gpus):
    stand_in("squeue", "echo RUNNING")
    stand_in("scontrol", scontrol)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.delenv("SLURM_GPUS_ON_NODE", raising=False)
    assert Allocation.here().gpus_per_node == gpus
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")  # inside a step
    assert Allocation.here().gpus_per_node == 4


def test_a_job_says_what_it_waits_for(stand_in):
    stand_in("squeue", "echo '17|PENDING|Resources|2026-11-21T14:02:11|'")
    state = SlurmJob("r1").state()
    assert state == JobState("17", "PENDING", "Resources", "2026-11-21T14:02:11") and state.active
    assert state.waiting == "Slurm job 17 waits: Resources, expected to start at 2026-11-21 14:02:11"
    stand_in("squeue", "echo '17|PENDING|Priority|N/A|'")
    assert SlurmJob("r1").state().waiting == "Slurm job 17 waits: Priority"
    for reason in ("launch failed requeued held", "JobHeldUser", "PartitionTimeLimit", "PartitionConfig"):
        stand_in("squeue", f"echo '17|PENDING|{reason}|2026-11-21T14:02:11|'")
        waiting = SlurmJob("r1").state().waiting
        assert f"{reason}; it will not start by itself" in waiting and "2026" not in waiting
    stand_in("squeue", "echo '17|RUNNING|None|2026-11-21T14:02:11|node[01-02]'")
    state = SlurmJob("r1").state()
    assert state == JobState("17", "RUNNING", nodes="node[01-02]") and state.waiting == ""


def test_accounting_knows_how_a_job_ended(stand_in):
    stand_in("squeue", "echo '17|CANCELLED|None|N/A|node01'")
    stand_in("sacct", "echo '17|CANCELLED by 1001|node01'")
    assert SlurmJob("r1").ended() == JobState("17", "CANCELLED", nodes="node01")


def test_batch_job_has_number_and_slurm_message(stand_in, monkeypatch):
    stand_in("sbatch", "echo '17;cluster'")
    assert submit(["sbatch", "--parsable", "x.sh"], ".", None) == "17"
    stand_in("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    with pytest.raises(SlurmError, match="invalid partition specified: x"):
        submit(["sbatch"], ".", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmError, match="squeue is not on this machine's path"):
        SlurmJob("r1").state()


@pytest.mark.parametrize(
    "squeue", ["echo TIMEOUT", "exit 0", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"]
)
def test_launch_in_a_finished_job_is_refused(stand_in, monkeypatch, squeue):
    stand_in("squeue", squeue)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    with pytest.raises(SlurmError, match="job 17 .*over"):
        Site.here()


REFUSALS = {
    "echo 'srun: fatal: Could not establish a configuration source' >&2; exit 1": "srun: fatal: Could not establish",
    "echo 'srun: error: Task launch for StepId=1.0 failed on node n1: Job prolog failed' >&2; exit 1": "prolog failed",
}


@pytest.mark.parametrize(("srun", "why"), REFUSALS.items())
def test_an_srun_that_cannot_start_tasks_is_quoted_without_asking_slurm(stand_in, srun, why):
    stand_in("srun", srun)
    stand_in("squeue", "exit 1")
    run = launch("hello.py", site=Site(scheduler="slurm", cores_per_node=2), check=False, warm=False)
    assert run.state == "failed" and why in run.failure.sentence


def test_a_missing_program_or_configuration_is_named(stand_in, monkeypatch):
    site = Site(scheduler="slurm", cores_per_node=2)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SiteError, match="srun .*No such file"):
        launch("hello.py", site=site)
    assert [run.state for run in runs()] == ["failed"]
    monkeypatch.setenv("SLURM_CONF", "/nonexistent")
    with pytest.raises(SlurmError, match="SLURM_CONF"):
        launch("hello.py", site=site)


SLURM = Site(scheduler="slurm", partition="p", cores_per_node=2)


def test_a_controller_that_does_not_answer_changes_nothing(stand_in, tmp_path):
    stand_in("sbatch", "echo 17")
    answers = f"[ -e {tmp_path}/away ] && {{ echo 'Unable to contact slurm controller' >&2; exit 1; }}"
    stand_in("squeue", f"{answers}; echo '17|RUNNING|None|N/A|node01'")
    stand_in("sacct", "exit 0")
    run = launch("hello.py", site=SLURM, detach=True)
    (tmp_path / "away").touch()
    again = attach(run.id)
    assert again.state == "starting" and any("does not answer" in note for note in again.progress().notes)
    with pytest.raises(SlurmError, match="nothing was canceled"):
        again.stop()
    (tmp_path / "away").unlink()
    assert not attach(run.id).progress().notes


def test_a_detached_launcher_is_quoted_if_no_rank_ran(stand_in):
    stand_in("sbatch", "echo 17")
    stand_in("squeue", "echo '17|FAILED|NonZeroExitCode|N/A|node01'")
    stand_in("sacct", "exit 1")
    run = launch("hello.py", site=SLURM, detach=True)
    (run.folder / "launcher.log").write_text(
        "srun: fatal: SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE are mutually exclusive\n"
    )
    assert "mutually exclusive" in attach(run.id).failure.sentence


def test_another_jobs_variables_reach_neither_jobs_nor_questions(stand_in, monkeypatch, tmp_path):
    for name in ("SLURM_MEM_PER_NODE", "SLURM_CPU_BIND", "SBATCH_EXPORT", "SQUEUE_FORMAT", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SBATCH_ACCOUNT", "/dev/null")
    stand_in("sbatch", f"env > {tmp_path}/sbatch.env; echo 17")
    stand_in("squeue", f"env > {tmp_path}/squeue.env; echo '17|RUNNING|None|N/A|node01'")
    run = launch("hello.py", site=SLURM, detach=True)
    assert run.state == "starting"
    for program_ in ("sbatch", "squeue"):
        seen = (tmp_path / f"{program_}.env").read_text()
        assert "SBATCH_ACCOUNT=/dev/null" in seen
        assert not [name for name in ("SLURM_MEM", "SLURM_CPU", "SBATCH_EXPORT", "SQUEUE_", "SLURM_CL") if name in seen]
