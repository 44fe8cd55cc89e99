"""Contents of site files, and errors for invalid ones."""

import pytest

from ddl.launcher import site
from ddl.launcher.site import Site, SiteError
from ddl.launcher.sitefile import seconds

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
    assert found.image == str(tmp_path / "course.sif")  # beside the file that names it
    assert found.origin == str(tmp_path / "site.toml")


def test_an_absolute_image_and_the_name_of_one_stay(read):
    text = 'container = "{}"\nimage = "{}"\n'
    assert read(text.format("singularity", "/shared/a.sif")).image == "/shared/a.sif"
    assert read(text.format("docker", "course:gpu")).image == "course:gpu"


def test_a_local_site_has_what_this_machine_has(read, monkeypatch):
    monkeypatch.setattr(site, "usable_cores", lambda: 6)
    monkeypatch.setattr(site, "gpu_names", lambda: ("A100",) * 2)
    assert (read("").cores_per_node, read("").gpus_per_node) == (6, 2)
    assert read("gpus_per_node = 0").slots == 6


def test_hosts_made_on_this_machine_share_its_cores(read, monkeypatch):
    monkeypatch.setattr("ddl.records.machine.usable_cores", lambda: 12)
    found = read('scheduler = "namespaces"\nrate_mbit = 100')
    assert (found.nodes, found.rate_mbit, found.cores_per_node, found.gpus_per_node) == (2, 100, 6, 0)
    assert read('scheduler = "namespaces"\nnodes = 4').cores_per_node == 3
    assert read('scheduler = "namespaces"\nnodes = 8').cores_per_node == 2
    assert read('scheduler = "namespaces"\ncores_per_node = 9').cores_per_node == 9


def test_a_cluster_has_what_its_file_says(read, monkeypatch):
    monkeypatch.setattr(site, "gpu_names", lambda: ("A100",) * 2)
    cluster = 'scheduler = "slurm"\n'
    assert read(f"{cluster}cores_per_node = 4").gpus_per_node == 0
    assert read(f"{cluster}gpus_per_node = 4").cores_per_node == 4
    for without in (cluster, f"{cluster}gpus_per_node = 0"):
        with pytest.raises(SiteError, match=r"site\.toml: cores_per_node"):
            read(without)


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


def test_a_file_that_is_no_text_or_no_file(read, tmp_path):
    with pytest.raises(SiteError, match="utf-8"):
        read(b'nodes = 1\npartition = "caf\xe9"\n')
    with pytest.raises(SiteError, match=r"not valid TOML: .*line 2"):
        read("nodes = 1\npartition = gpu")
    with pytest.raises(SiteError, match="cannot be read: Is a directory"):
        Site.read(tmp_path)


def test_times_as_slurm_writes_them():
    written = {"": 0, "0": 0, "30": 1800, "1:30": 90, "1:00:00": 3600}
    written |= {"1-12": 129600, "1-0:30": 88200, "1-0:0:5": 86405}
    assert {text: seconds(text) for text in written} == written
