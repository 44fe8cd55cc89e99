"""Contents of site files, errors for invalid ones, and the examples with their page."""

import re

import pytest

from ddl.job import site
from ddl.job.site import Site, SiteError
from ddl.job.sitefile import seconds
from helpers import ROOT

FULL = """\
# Every key of a cluster, none at its default.
scheduler = "slurm"
container = "singularity"
controller = "mpi"
cores_per_node = 32
gpus_per_node = 4
nodes = 2
python = "/opt/python"
partition = "gpu"
account = "course"
reservation = "monday"
time_limit = "1:00:00"
time_limit_warning_s = 300
gpu_option = "--gpus-per-node={n}"
gpu_type = "a100"
scheduler_arguments = ["--constraint=a100 & ib", "--qos", "short"]
modules = ["singularity/3.8"]
image = "course.sif"
binds = ["/scratch", "/data:/data:ro"]
container_arguments = ["--writable-tmpfs"]
pass_environment = ["NCCL_DEBUG"]
network_interfaces = ["ib0"]
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "site.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Site.read(path)

    return read


def test_every_key_is_read(read, tmp_path):
    found = read(FULL)
    defaults = Site()
    for name in site.KEYS:
        if name != "rate_mbit":  # of hosts made on one machine
            assert getattr(found, name) != getattr(defaults, name), name
    assert found.scheduler_arguments == ("--constraint=a100 & ib", "--qos", "short")
    assert found.image == str(tmp_path / "course.sif")  # next to the file that names it
    assert found.origin == str(tmp_path / "site.toml")


def test_hosts_made_on_this_machine_share_its_cores(read, monkeypatch):
    monkeypatch.setattr("ddl.records.machine.usable_cores", lambda: 12)
    found = read('scheduler = "namespaces"\nrate_mbit = 100')
    assert (found.nodes, found.rate_mbit, found.cores_per_node, found.gpus_per_node) == (2, 100, 6, 0)
    assert read('scheduler = "namespaces"\nnodes = 4').cores_per_node == 3
    assert read('scheduler = "namespaces"\nnodes = 8').cores_per_node == 2
    assert read('scheduler = "namespaces"\ncores_per_node = 9').cores_per_node == 9


SLURM = 'scheduler = "slurm"\ncores_per_node = 4\n'
HOSTS = 'scheduler = "namespaces"\n'
WRONG = {  # lines: a part of the refusal
    SLURM + 'partitoin = "gpu"': "did you mean 'partition'?",
    SLURM + 'controller = "ssh"': "gloo, mpi",
    SLURM + "nodes = 0": ">= 1",
    SLURM + 'time_limit = "1h"': "hours:minutes:seconds",
    SLURM + 'time_limit = "2"': "time_limit_warning_s = 120",
    SLURM + 'gpu_option = "--gpus-per-task={n}"': "--gres=gpu:{n}",
    SLURM + 'scheduler_arguments = "--qos"': "a list",
    SLURM + 'scheduler_arguments = ["--clusters=gpu"]': "clusters",
    SLURM + 'scheduler_arguments = ["-Mgpu"]': "clusters",
    SLURM + 'container = "docker"': "singularity",
    SLURM + "partition = gpu": "quotes",
    "nodes = 2": 'scheduler = "slurm"',
    "rate_mbit = 100": 'scheduler = "namespaces"',
    HOSTS + "nodes = 1": "2 to 64",
    HOSTS + "gpus_per_node = 1": "bypass",
    HOSTS + 'image = "x"\ncontainer = "docker"': "network",
}


@pytest.mark.parametrize("lines, refusal", WRONG.items())
def test_a_wrong_key_is_named_with_what_is_valid(read, tmp_path, lines, refusal):
    with pytest.raises(SiteError) as caught:
        read(f"{lines}\n")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/site.toml: ") and refusal in message


def test_times_as_slurm_writes_them():
    written = {"": 0, "0": 0, "30": 1800, "1:30": 90, "1:00:00": 3600}
    written |= {"1-12": 129600, "1-0:30": 88200, "1-0:0:5": 86405}
    assert {text: seconds(text) for text in written} == written


SITES = ROOT / "containers" / "sites"
EXAMPLES = {
    "laptop": ("local", "none"),
    "gpu-node-docker": ("local", "docker"),
    "slurm-singularity": ("slurm", "singularity"),
    "slurm": ("slurm", "none"),
    "two-hosts": ("namespaces", "none"),
}


def test_site_examples_are_listed_and_valid(read):
    assert {path.stem for path in SITES.glob("*.toml")} == set(EXAMPLES)
    assert set(re.findall(r"\]\(([\w-]+)\.toml\)", (SITES / "README.md").read_text())) == set(EXAMPLES)
    for name, kind in EXAMPLES.items():
        example = SITES / f"{name}.toml"
        found = Site.read(example)
        assert (found.scheduler, found.container) == kind
        read(re.sub(r"^# (\w+ = )", r"\1", example.read_text(), flags=re.MULTILINE))
