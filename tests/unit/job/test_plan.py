import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ddl import hosts
from ddl.job.job import Job
from ddl.job.plan import plan
from ddl.job.site import Site
from ddl.records import paths

SITE = Site(cores_per_node=4, python="/env/bin/python")
FOLDER = Path("/runs/r1")
SERVERS = {"cluster": "parameter_server"}
HOROVODRUN = "--gloo --network-interfaces lo --gloo-timeout-seconds 180 -np".split()


def planned(job, site=SITE):
    return plan(job, site, run_id="r1", folder=FOLDER, created=12.5)


@pytest.mark.parametrize(
    "job, ranks, command",
    [
        ({"args": ("--recipe", "warmup")}, 2, "/c/x.py --recipe warmup"),
        ({"script": "-m pkg.train", "args": ("7",)}, 2, "-m pkg.train 7"),
        ({"cluster": "multi_worker"}, 2, "--cluster multi_worker /c/x.py"),
        # Four cores, two workers: two threads each, though there are five processes.
        ({**SERVERS, "parameter_servers": 2}, 5, "--cluster parameter_server --parameter-servers 2 /c/x.py"),
    ],
)
def test_command_on_this_machine(job, ranks, command):
    result = planned(Job(**{"script": "/c/x.py"} | job, workers=2, cwd="/course/notebooks", timeout_s=7.5))
    line = f"/env/bin/python -m ddl.rank --threads 2 {command}"
    assert result.shell_line == f"cd /course/notebooks && /env/bin/horovodrun {' '.join(HOROVODRUN)} {ranks} {line}"
    assert shlex.join(result.argv) == "/env/bin/python -m ddl.start.one_host /runs/r1"


@pytest.mark.parametrize(("script", "words"), [("/c/x.py", "/c/x.py"), ("-m pkg.train", "-m pkg.train")])
def test_the_line_of_a_torchrun_script_is_one_of_torchrun(script, words):
    result = planned(Job(script, ("--lr", "0.1"), workers=2, cwd="/c", cluster="torchrun"))
    line = f"/env/bin/torchrun --standalone --nproc-per-node 2 {words} --lr 0.1"
    assert result.shell_line == f"cd /c && env OMP_NUM_THREADS=2 {line}"
    assert shlex.join(result.argv) == "/env/bin/python -m ddl.start.one_host /runs/r1"


def test_hosts_made_on_this_machine_have_a_command_of_their_own(monkeypatch):
    monkeypatch.setattr("ddl.records.machine.usable_cores", lambda: 8)
    site = replace(hosts.site(rate_mbit=100, hosts=2), python="/env/bin/python")
    result = planned(Job("/c/x.py", ("--epochs", "2"), workers=4, nodes=2, cwd="/c", timeout_s=9), site)
    hosts_ = "/env/bin/python -m ddl.start.netns_hosts"
    assert (
        result.shell_line == f"cd /c && {hosts_} --nodes 2 --rate-mbit 100 --workers 4 --threads 2 /c/x.py --epochs 2"
    )
    assert shlex.join(result.argv) == f"{hosts_} /runs/r1"
    assert result.where == "on 2 hosts made on this machine, with 100 Mbit/s between them"


def test_elastic_run_has_a_discovery_script():
    result = planned(Job("/c/x.py", workers=3, elastic=True, cwd="/c"))
    assert shlex.join(result.argv) == "/env/bin/python -m ddl.start.elastic /runs/r1"
    assert result.shell_line.startswith(
        "cd /c && /env/bin/horovodrun --gloo --network-interfaces lo --gloo-timeout-seconds 180 -np 1 --min-np 1 --max-np 3 "
        "--blacklist-cooldown-range 1 60 --host-discovery-script /runs/r1/discover_hosts.sh /env/bin/python -m ddl.rank"
    )
    files = {path.name: text for path, text in result.files}
    assert files["discover_hosts.sh"] == "#!/bin/sh\necho localhost:2\necho 127.0.0.1:1\n"


def test_job_files_are_written_before_the_start():
    job = Job("/course/x.py", ("a",), workers=2, cwd="/course", name="small", timeout_s=60, cluster="parameter_server")
    result = planned(job)
    files = {path.name: text for path, text in result.files}
    assert files["command.sh"] == f"#!/bin/sh\n{result.shell_line}\n"
    described = json.loads(files["job.json"])
    assert (described["argv"], described["shell_line"]) == (list(result.argv), result.shell_line)
    wanted = {"id": "r1", "name": "small", "created": 12.5, "script": "/course/x.py", "args": ["a"], "cwd": "/course"}
    wanted |= {"workers": 2, "parameter_servers": 1, "ranks": 4, "nodes": 1, "threads": 2, "env": [], "timeout_s": 60}
    assert described | wanted == described
    assert described["site"]["scheduler"] == "local" and described["site"]["cores_per_node"] == 4
    assert dict(result.environment) == {"DDL_RUN_ID": "r1", "DDL_RUN_DIR": "/runs/r1"}


def test_arguments_with_shell_characters_survive_the_shell_line():
    awkward = ("a b", "it's", '"q"', "$HOME", "`x`", "*", "", "a;b&c|d", "é", "-np", "9")
    result = planned(Job("/my course/x y.py", awkward, cwd="/my course"))
    words = shlex.split(result.shell_line)
    assert words[:3] == ["cd", "/my course", "&&"]
    assert words[-len(awkward) - 1 :] == ["/my course/x y.py", *awkward]
    assert json.loads(dict(result.files)[FOLDER / "job.json"])["args"] == list(awkward)


JOB = Job("/course/train_cifar.py", ("--recipe", "warmup"), workers=2, cwd="/course/notebooks")
CLUSTER = Site(
    scheduler="slurm",
    partition="gpu",
    account="class7",
    time_limit="1:00:00",
    nodes=2,
    gpus_per_node=4,
    cores_per_node=32,
    gpu_type="a100",
    scheduler_arguments=("--exclusive",),
    python="/env/bin/python",
)
IN_CONTAINER = Site(
    scheduler="slurm",
    partition="gpu",
    nodes=2,
    gpus_per_node=4,
    cores_per_node=32,
    container="singularity",
    image="/shared/ddl.sif",
    binds=("/scratch:/scratch:ro",),
    pass_environment=("NCCL_DEBUG",),
)
ENVIRONMENT = (
    "CUDA_CACHE_PATH,CUDA_CACHE_MAXSIZE,HOME,LANG,LD_LIBRARY_PATH,LOGNAME,PATH,SHELL,USER,XDG_CACHE_HOME,DDL_RUN_ID,"
    "DDL_RUN_DIR,DDL_RUNS_DIR,DDL_DATA_DIR,DDL_LAUNCHER_PIPE,PYTHONNOUSERSITE,PYTHONSAFEPATH"
)
CARRIER = paths.source_dir() / "ddl" / "job" / "pass_environment.sh"


def line(job, site, **options):
    """The planned line, without the change of folder in front."""
    options = {"needs": ("/course", "/data", "/course/runs"), "user": "1000:100", **options}
    result = plan(job, site, run_id="r1", folder=FOLDER, **options)
    before, _, rest = result.shell_line.partition(" && ")
    assert before == f"cd {job.cwd}"
    return rest


ONE_NODE = "--exclusive --nodes=1 --ntasks-per-node=1 --cpus-per-task=32 --gres=gpu:a100:2"
EIGHT_RANKS = "--exclusive --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 --gres=gpu:a100:4"
# Three tasks on one node, two on the other one.
FIVE_RANKS = "--exclusive --nodes=2 --ntasks=5 --ntasks-per-node=3 --cpus-per-task=10 --gres=gpu:a100:2"
TASKS = "--distribution=block --kill-on-bad-exit=1 --mpi=none "
TASK = "/env/bin/python -m ddl.start.task --network-interface ib0"


@pytest.mark.parametrize(
    "job, resources, together, starter, options",
    [
        ({}, ONE_NODE, "", f"/env/bin/horovodrun {' '.join(HOROVODRUN)} 2 /env/bin/python -m ddl.rank", "--threads 16"),
        ({"workers": 8, "timeout_s": 600}, EIGHT_RANKS, TASKS, TASK, "--threads 8"),
        (
            {"nodes": 2, "parameter_servers": 2, **SERVERS},
            FIVE_RANKS,
            TASKS,
            TASK,
            "--threads 10 --cluster parameter_server --parameter-servers 2",
        ),
        ({"workers": 8, "cluster": "torchrun"}, EIGHT_RANKS, TASKS, TASK, "--threads 8 --cluster torchrun"),
    ],
)
def test_nodes_of_slurm(job, resources, together, starter, options):
    assert line(replace(JOB, **job), replace(CLUSTER, network_interfaces=("ib0",))) == (
        "srun --job-name=ddl-r1 --partition=gpu --account=class7 --time=1:00:00 --signal=URG@120 "
        f"{resources} {together}--export={ENVIRONMENT} {starter} {options} /course/train_cifar.py --recipe warmup"
    )


def test_singularity_on_a_node_of_slurm():
    assert line(JOB, IN_CONTAINER) == (
        "srun --job-name=ddl-r1 --partition=gpu --signal=URG@120 "
        "--nodes=1 --ntasks-per-node=1 --cpus-per-task=32 --gres=gpu:2 "
        f"--export={ENVIRONMENT},PYTHONPATH,NCCL_DEBUG "
        f"sh {CARRIER} DDL_RUN_ID DDL_RUN_DIR DDL_RUNS_DIR DDL_DATA_DIR DDL_LAUNCHER_PIPE "
        "PYTHONNOUSERSITE PYTHONSAFEPATH PYTHONPATH NCCL_DEBUG CUDA_VISIBLE_DEVICES CUDA_CACHE_PATH CUDA_CACHE_MAXSIZE 'SLURM_*' SLURMD_NODENAME -- "
        "singularity exec --nv --cleanenv --pwd /course/notebooks --bind /course --bind /data "
        "--bind /scratch:/scratch:ro /shared/ddl.sif "
        "horovodrun --gloo --network-interfaces lo --gloo-timeout-seconds 180 -np 2 "
        "python -m ddl.rank --threads 16 /course/train_cifar.py --recipe warmup"
    )


def test_mpi_ranks_meet_through_pmix():
    site = replace(IN_CONTAINER, controller="mpi")
    text = line(JOB, site)
    assert "--ntasks-per-node=2 --cpus-per-task=16 --gres=gpu:2 --distribution=block " in text
    assert "--kill-on-bad-exit=1 --mpi=pmix " in text
    assert "SLURMD_NODENAME PMIX_* OMPI_* -- singularity exec" in text.replace("'", "")
    assert "python -m ddl.start.task --controller mpi --threads" in text
    text = line(replace(JOB, cluster="multi_worker"), site)  # tf.distribute needs no MPI
    assert "--mpi=none" in text


def test_a_detached_run_is_a_batch_job():
    site = replace(IN_CONTAINER, container="none", modules=("cuda/12", "nccl/2"), python="/env/python")
    result = plan(JOB, site, run_id="r1", folder=FOLDER, detach=True)
    assert shlex.join(result.argv) == (
        "sbatch --parsable --requeue --open-mode=append --job-name=ddl-r1 --partition=gpu "
        "--signal=URG@120 --nodes=1 --ntasks-per-node=1 --cpus-per-task=32 --gres=gpu:2 "
        f"--export={ENVIRONMENT},NCCL_DEBUG --output=/runs/r1/launcher.log /runs/r1/batch.sh"
    )
    assert (
        dict(result.files)[FOLDER / "batch.sh"]
        == f"""\
#!/bin/bash -l
module load cuda/12 nccl/2
rm -f "$DDL_RUN_DIR/requeue"
srun --nodes=1 --ntasks-per-node=1 --cpus-per-task=32 --gres=gpu:2 --export={ENVIRONMENT},NCCL_DEBUG \
/env/python -m ddl.start.one_host /runs/r1
status=$?
if [ $status -eq 0 ] && [ -e "$DDL_RUN_DIR/requeue" ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
"""
    )


def test_allocation_runs_a_step_without_queueing():
    text = line(replace(JOB, workers=8), replace(CLUSTER, allocation="17", modules=("cuda/12",)))
    assert text.startswith("""bash -lc 'module load cuda/12 && exec "$@"' ddl srun --nodes=2 --ntasks-per-node=4""")
    assert "--overlap" in text
    assert "--partition" not in text and "--job-name" not in text


@pytest.mark.parametrize(
    "site", [SITE, IN_CONTAINER, replace(IN_CONTAINER, nodes=1, scheduler="local", container="docker")]
)
def test_variable_reaches_ranks_but_value_is_not_recorded(site, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "hush-4711")
    job = replace(JOB, env=(("TOKEN", "hush-4712"),))
    result = planned(job, replace(site, pass_environment=("MY_API_TOKEN",)))
    environment = dict(result.environment)
    assert environment["TOKEN"] == "hush-4712" and "MY_API_TOKEN" not in environment
    assert "hush" not in f"{result.shell_line} {result.files} {job}"
    assert (
        ' && TOKEN="$TOKEN" ' in result.shell_line and '"env": [\n  "TOKEN"' in dict(result.files)[FOLDER / "job.json"]
    )
    if site.enters_container:
        assert all(name in result.shell_line for name in ("MY_API_TOKEN", " TOKEN"))
        assert environment["PYTHONPATH"] == str(paths.source_dir()) and environment["PYTHONNOUSERSITE"] == "1"


def test_a_container_keeps_the_kernels_that_a_gpus_driver_compiles():
    kept = {
        "needs": ("/course", "/cache/cuda"),
        "kernels": "/cache/cuda",
        "user": "1:1",
        "run_id": "r1",
        "folder": FOLDER,
    }
    docker = Site(container="docker", image="ddl", gpus_per_node=2, cores_per_node=4)
    for site, has in ((IN_CONTAINER, True), (docker, True), (replace(docker, gpus_per_node=0), False)):
        planned = plan(JOB, site, **kept)
        assert (("CUDA_CACHE_PATH", "/cache/cuda") in planned.environment) == has
        assert "CUDA_CACHE_PATH" in planned.argv and "/cache/cuda" in " ".join(planned.argv)
