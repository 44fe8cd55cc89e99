"""Clusters of tf.distribute, and ranks of PyTorch, over the two nodes of a real Slurm."""

import pytest

from ddl import launch
from ddl.follow import processes
from helpers import LAUNCHING, printed

pytestmark = pytest.mark.nightly(*LAUNCHING)

TASK = """
    import json, os, sys, time
    from ddl import cluster
    task = cluster.read()
    print(json.dumps({"task": task.name, "tasks": list(task.tasks), "writes": task.writes,
                      "node": os.environ["SLURMD_NODENAME"],
                      "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}), flush=True)
"""


def test_five_tasks_fill_nodes_in_order(on_slurm, script):
    run = launch(script(TASK), workers=2, nodes=2, cluster="parameter_server", parameter_servers=2, threads=1)
    assert run.state == "done", run.failure
    tasks = ["chief", "worker 0", "worker 1", "ps 0", "ps 1"]
    nodes = [each["node"] for each in printed(run, 0)]
    assert nodes == sorted(nodes) and set(nodes) == {"node01", "node02"}
    assert printed(run, 0) == [
        {"task": task, "tasks": tasks, "writes": task == "chief", "node": node, "gpus": gpus}
        for task, node, gpus in zip(tasks, nodes, ["", "0", "1", "", ""], strict=True)
    ]
    assert processes.of_run(run.id) == []


def test_ranks_of_pytorch_on_two_nodes_add_up(on_slurm, script):
    pytest.importorskip("torch")
    path = script("""
    import json, os
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    figure = torch.tensor(dist.get_rank() + 1.0)
    dist.all_reduce(figure)
    print(json.dumps([os.environ["SLURMD_NODENAME"], os.environ["LOCAL_RANK"], figure.item()]))
    dist.destroy_process_group()
    """)
    run = launch(path, workers=4, nodes=2, cluster="torchrun")
    assert run.state == "done", run.failure
    assert "-m ddl.start.task --network-interface lo" in run.job["shell_line"]
    assert printed(run) == [[node, local, 10.0] for node in ("node01", "node02") for local in "01"]
    assert processes.of_run(run.id) == []
