"""PyTorch's own ways to share out lesson 6's transformer give the losses of the lesson's."""

import os
import subprocess
import sys

import pytest

from helpers import ROOT, launched, launches

TINY = {"width": 32, "depth": 2, "steps": 3, "batch": 2, "length": 16, "workers": 2}
PIPED = {**TINY, "microbatches": 4}
RUNS = {
    "ours": {"script": "train_transformer.py", **TINY},
    "our pipeline": {"script": "run_pipeline.py", **PIPED},
    **{
        method: {"script": "torch_sharded.py", "cluster": "torchrun", "method": method, **PIPED}
        for method in ("ddp", "zero1", "fsdp", "gpipe", "1f1b", "interleaved")
    },
}
OUTPUTS = {"runs": launches(RUNS)}


@pytest.fixture(scope="module")
def runs(output_of):
    pytest.importorskip("torch")
    return launched(*output_of("runs"))


@pytest.mark.nightly("source_code/course/sharding/*")  # the extra is installed for the full run only
@pytest.mark.parametrize("method", ["ddp", "zero1", "fsdp", "gpipe", "1f1b", "interleaved"])
def test_a_way_of_pytorch_trains_as_ours_does(runs, method):
    ours = runs["our pipeline" if method in ("gpipe", "1f1b", "interleaved") else "ours"]
    assert runs[method].result["losses"] == pytest.approx(ours.result["losses"], rel=1e-4)


COUNTERPARTS = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module,
)

from course.sharding.counterparts import Counterparts

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.first, self.second = nn.LayerNorm(8), nn.Linear(8, 16, bias=False), nn.Linear(16, 8, bias=False)

    def forward(self, x):
        return self.second(torch.relu(self.first(self.norm(x))))

dist.init_process_group("gloo")
rank, mesh = dist.get_rank(), init_device_mesh("cpu", (2,))
model, whole, x = Block(), Block(), torch.arange(96.0).reshape(3, 4, 8).sin()
exec(Counterparts("tensor")._texts["PyTorch"])
with CommDebugMode() as messages:
    y = model(x.chunk(2, 1)[rank])
torch.testing.assert_close(y, whole(x).chunk(2, 1)[rank])
counts = {str(operation).split(".")[-1]: n for operation, n in messages.get_comm_counts().items()}
assert counts == {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 1}, counts
y.sum().backward()
whole(x).sum().backward()
torch.testing.assert_close(model.first.weight.grad.full_tensor(), whole.first.weight.grad)

model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))
exec(Counterparts("stages 2 and 3")._texts["PyTorch"])
before = [each.full_tensor().clone() for each in model.parameters()]
model(x).sum().backward()
optimizer.step()
assert all((old != new.full_tensor()).any() for old, new in zip(before, model.parameters(), strict=True))
dist.destroy_process_group()
"""


@pytest.mark.nightly("source_code/course/sharding/*")
def test_counterparts_in_pytorch_train(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "counterparts.py").write_text(COUNTERPARTS)
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "counterparts.py"]
    done = subprocess.run(
        line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "source_code")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
