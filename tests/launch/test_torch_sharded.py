"""PyTorch's own ways to share out lesson 6's transformer give the losses of the lesson's."""

import pytest

from helpers import launched, launches

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
