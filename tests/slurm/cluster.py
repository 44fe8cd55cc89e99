"""A real Slurm on this host: munge, one controller and two node daemons, all of them ours.

Everything lies in one folder, listens on free loopback ports, and is a child of this process, so
that leaving the context ends it. The GPUs are stand-ins: character devices that Slurm hands out
(and sets CUDA_VISIBLE_DEVICES for), with nothing behind them.
"""

import contextlib
import os
import platform
import shutil
import signal
import stat
import subprocess
from pathlib import Path

from helpers import free_ports, until

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
NODES = ("node01", "node02")
CORES, GPUS = 4, 2  # of each node: more cores than the host may have, so that jobs fit

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
PropagateResourceLimits=NONE
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
KillWait=4
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
{nodes}
PartitionName=gpu Nodes={names} Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes={names} MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing():
    """Return what has to be installed (Debian's package names), or what else is missing."""
    packages = [package for program, package in PROGRAMS.items() if not which(program)]
    if packages:
        return f"Debian packages {' '.join(packages)}"
    return "" if os.geteuid() == 0 else "root, to make device files"


def which(program):
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextlib.contextmanager
def cluster(folder):
    """Start the cluster in `folder`; yield the path of its slurm.conf, for ``SLURM_CONF``."""
    folder = Path(folder)
    folder.chmod(0o755)
    (folder / "state").mkdir()
    for node in NODES:
        (folder / f"spool-{node}").mkdir()  # newer versions of Slurm don't make it
    configure(folder)
    daemons = []
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(name, *arguments):
        command = [which(name.split("-")[0]), *arguments]
        with open(folder / f"{name}.out", "wb") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            daemons.append(subprocess.Popen(command, env=environment, **streams))

    try:
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        paths = [f"--{option}={folder}/munge.{ending}" for option, ending in files.items()]
        start("munged", "--foreground", "--force", *paths)
        wait_for(lambda: (folder / "munge.socket").exists(), "munge's socket", folder)
        start("slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        for node in NODES:
            start(f"slurmd-{node}", "-D", "-N", node, "-f", str(folder / "slurm.conf"))
        wait_for(lambda: idle(environment) == len(NODES), "the nodes to be idle", folder)
        yield folder / "slurm.conf"
    finally:
        end_jobs(environment)
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for device in folder.glob("gpu-*"):
            device.unlink()


def configure(folder):
    host = platform.node()
    controller, *ports = free_ports(1 + len(NODES))
    nodes = "\n".join(
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CORES} "
        f"RealMemory=4000 Gres=gpu:{GPUS} State=UNKNOWN"
        for node, port in zip(NODES, ports)
    )
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(host=host, controller_port=controller, folder=folder, nodes=nodes, names=",".join(NODES))
    )
    lines = []
    for node in NODES:
        for number in range(GPUS):
            device = folder / f"gpu-{node}-{number}"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # another /dev/null
            lines.append(f"NodeName={node} Name=gpu File={device}")
    (folder / "gres.conf").write_text("\n".join(lines) + "\n")
    version = subprocess.run([which("slurmctld"), "-V"], capture_output=True, text=True).stdout.split()[-1]
    if int(version.split(".")[0]) >= 23:  # otherwise it looks for control groups
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)


def idle(environment):
    asked = subprocess.run(
        ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T"], env=environment, capture_output=True, text=True
    )
    return sum(line.endswith(" idle") for line in asked.stdout.splitlines())


def end_jobs(environment):
    """Cancel all jobs and wait until the nodes are free, so that no step outlives its daemon."""
    subprocess.run(["scancel", "-p", "gpu,urgent", "--full"], env=environment, capture_output=True)
    subprocess.run(["scancel", "-u", "root"], env=environment, capture_output=True)
    with contextlib.suppress(AssertionError):  # what still runs then ends with its daemon
        until(lambda: idle(environment) >= len(NODES), 20)


def wait_for(condition, what, folder, timeout_s=60):
    def message():
        logs = sorted([*folder.glob("*.log"), *folder.glob("*.out")])
        tails = "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}" for path in logs)
        return f"waited {timeout_s} s for {what}\n{tails}"

    until(condition, timeout_s, message)
