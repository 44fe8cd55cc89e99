"""An example of a class's settings.py on a cluster: Slurm starts attendees' servers, as their accounts.

The hub runs on a login node as root (`make hub ACCOUNTS=1 HOST=…`). Course, environment and the class's folder are on a
shared file system.
"""

import socket
import sys
from pathlib import Path

import batchspawner  # noqa: F401 - lets a server tell the hub which port it has

c = get_config()  # noqa: F821 - what JupyterHub reads a settings file with

c.JupyterHub.spawner_class = "hub.slurm.OnSlurm"
c.JupyterHub.hub_connect_ip = socket.getfqdn()  # where nodes reach the hub
c.JupyterHub.hub_ip = "0.0.0.0"

c.OnSlurm.req_partition = "cpu"
c.OnSlurm.req_nprocs = "2"  # cores, which the lessons' local runs share
c.OnSlurm.req_memory = "8G"
c.OnSlurm.req_runtime = "4:00:00"
c.Spawner.cpu_limit = c.Spawner.mem_limit = None  # Slurm's are above
c.Spawner.start_timeout = 3600  # s, maximal wait in Slurm's queue

# A job's PATH: the environment's programs, including `ddl`.
bin = Path(sys.executable).parent
c.OnSlurm.req_prologue = f"export PATH={bin}:$PATH"
c.Spawner.cmd = ["ddl", "lab"]
