"""Ranks of a Horovod script sum their numbers. Of the tests that launch, `make test` runs this one."""

import textwrap

import pytest

from helpers import launched, launches, printed

HOROVOD = """
    import json, sys
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    total = hvd.allreduce(tf.constant(float(hvd.rank() + 1)), op=hvd.Sum).numpy()
    print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), "sum": float(total),
                      "intra": tf.config.threading.get_intra_op_parallelism_threads()}))
"""


def sum_over_ranks(workers, folder):
    path = folder / "sum.py"
    path.write_text(textwrap.dedent(HOROVOD))
    return launches({"sum": {"script": str(path), "workers": workers, "oversubscribe": True}})(folder)


OUTPUTS = {"summed": sum_over_ranks}


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.slow), 2])
def summed(request, output_of):
    """The number of workers, and their run."""
    return request.param, launched(*output_of("summed", request.param))["sum"]


def test_horovod_script_runs_unmodified(summed, nothing_left):
    workers, run = summed
    assert run.state == "done", run.failure
    total = sum(range(1, workers + 1))
    assert [(output["rank"], output["size"], output["sum"]) for output in printed(run)] == [
        (rank, workers, total) for rank in range(workers)
    ]
    nothing_left(run)
