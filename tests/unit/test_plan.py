import json
import shlex
from pathlib import Path

import pytest

from ddl.job import Job
from ddl.plan import job_of, plan
from ddl.site import Site, SiteError

SITE = Site(cores_per_node=4, python="/env/bin/python")
FOLDER = Path("/runs/r1")


def planned(job, site=SITE):
    return plan(job, site, run_id="r1", folder=FOLDER, created=12.5)


def test_the_whole_command_on_this_machine():
    job = Job("/course/train_cifar.py", ("--recipe", "warmup"), workers=2, cwd="/course/notebooks")
    assert planned(job).shell_line == (
        "cd /course/notebooks && /env/bin/python -m ddl.horovodrun --gloo "
        "--network-interfaces lo --gloo-timeout-seconds 180 -np 2 /env/bin/python -m ddl.rank --threads 2 "
        "/course/train_cifar.py --recipe warmup"
    )


def test_what_is_written_before_the_start():
    job = Job("/course/x.py", ("a",), workers=2, cwd="/course", name="small", timeout_s=60)
    result = planned(job)
    files = {path.name: text for path, text in result.files}
    assert files["command.sh"] == f"#!/bin/sh\n{result.shell_line}\n"
    described = json.loads(files["job.json"])
    assert described == {
        "id": "r1", "name": "small", "created": 12.5, "script": "/course/x.py", "args": ["a"],
        "workers": 2, "threads": 2, "cwd": "/course", "timeout_s": 60,
        "site": {"scheduler": "local", "container": "none", "controller": "gloo", "cores_per_node": 4,
                 "gpus_per_node": 0},
        "argv": list(result.argv), "shell_line": result.shell_line,
    }
    assert dict(result.environment) == {"DDL_RUN_ID": "r1", "DDL_RUN_DIR": "/runs/r1"}


def test_arguments_with_shell_characters_survive_the_shell_line():
    awkward = ("a b", "it's", '"q"', "$HOME", "`x`", "*", "", "a;b&c|d", "é")
    result = planned(Job("/my course/x y.py", awkward, cwd="/my course"))
    words = shlex.split(result.shell_line)
    assert words[:3] == ["cd", "/my course", "&&"]
    assert tuple(words[3:]) == result.argv
    assert result.argv[-len(awkward) - 1:] == ("/my course/x y.py", *awkward)


@pytest.mark.parametrize("job", [
    Job("/c/x.py", ("a b", "--threads", "9"), workers=3, cwd="/c", threads=1, timeout_s=7.5,
        oversubscribe=True),
    Job("/c/x.py", (), workers=1, cwd="/c", threads=4, oversubscribe=True),
])
def test_a_pasted_command_is_the_same_job(job):
    argv = planned(job).argv
    assert job_of(argv[3:], "/c") == job


def test_a_foreign_command_is_no_job():
    assert job_of(["-np", "2", "python", "x.py"], "/c") is None
    assert job_of([], "/c") is None


@pytest.mark.parametrize("workers, threads", [(1, 4), (2, 2), (3, 1), (4, 1)])
def test_cores_are_shared_out(workers, threads):
    argv = planned(Job("/c/x.py", workers=workers, cwd="/c")).argv
    assert argv[argv.index("--threads") + 1] == str(threads)


def test_more_ranks_than_cores_are_refused_with_the_number_that_works():
    with pytest.raises(SiteError, match=r"5 workers .* 4 cores here: workers=4 works"):
        planned(Job("/c/x.py", workers=5, cwd="/c"))
    assert planned(Job("/c/x.py", workers=5, cwd="/c", oversubscribe=True))


def test_more_ranks_than_gpus_are_refused():
    with pytest.raises(SiteError, match=r"3 workers .* 2 GPUs here: workers=2 works"):
        planned(Job("/c/x.py", workers=3, cwd="/c"), Site(cores_per_node=64, gpus_per_node=2))


@pytest.mark.parametrize("field", ["scheduler", "container", "controller"])
def test_an_unknown_site_value_lists_the_valid_ones(field):
    with pytest.raises(SiteError, match=f"{field} = 'nonsense' is not one of: "):
        Site(**{field: "nonsense"})
