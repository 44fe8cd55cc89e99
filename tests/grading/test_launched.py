"""Lesson 3's answers that are launched: right ones in several styles, and what each mistake loses.

Every script is launched in marking's sandbox. All launches share one process with TensorFlow in it.
"""

from functools import partial

import pytest

from course.grader import launch_worker
from course.grader.limits import Limits
from course.grader.serialize import decode, encode
from course.multi_gpu import conversion, own_loop, repairs
from helpers import ROOT, answers

pytestmark = pytest.mark.slow("lessons/3*")
SCRIPTS = ROOT / "source_code" / "course" / "multi_gpu" / "scripts"
ANSWERS = answers()


def changed(script, changes):
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


# ---------------------------------------------------------------- three scripts, made distributed

FIT = ANSWERS["my_training.py"]
LOOP = changed(
    (SCRIPTS / "one_device_loop.py").read_text(),
    [
        ("import numpy", "import horovod.tensorflow as hvd\nimport numpy"),
        ("with np.load", "hvd.init()\nwith np.load"),
        (".batch(args.batch)", ".shard(hvd.size(), hvd.rank()).batch(args.batch)"),
        ("SGD(args.rate)", "SGD(args.rate * hvd.size())\nhvd.broadcast_variables(model.variables, root_rank=0)"),
        ("    gradients =", "    tape = hvd.DistributedGradientTape(tape)\n    gradients ="),
        ("tf.reduce_mean(losses), len", "hvd.allreduce(tf.reduce_mean(losses)), len"),
        ("model.save", "if hvd.rank() == 0:\n    model.save"),
    ],
)
TORCH = changed(
    (SCRIPTS / "one_device_torch.py").read_text(),
    [
        ("from torch.utils.data import DataLoader, TensorDataset",
         "import torch.distributed as dist\nfrom torch.utils.data import DataLoader, TensorDataset, DistributedSampler"),
        ("with np.load", "dist.init_process_group('gloo')\nranks = dist.get_world_size()\nwith np.load"),
        ("batch_size=args.batch", "batch_size=args.batch, sampler=DistributedSampler(dataset)"),
        ("optimizer = torch.optim.SGD(model.parameters(), args.rate)",
         "model = torch.nn.parallel.DistributedDataParallel(model)\n"
         "optimizer = torch.optim.SGD(model.parameters(), args.rate * ranks)"),
        ("report(model.parameters(), torch.stack(losses).mean(),",
         "loss = torch.stack(losses).mean()\ndist.all_reduce(loss)\nreport(model.parameters(), loss / ranks,"),
        ("torch.save", "if dist.get_rank() == 0:\n    torch.save"),
    ],
)  # fmt: skip

SHARD = "x, y = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]\n"
BROADCAST = "model.set_weights([hvd.broadcast(w, 0) for w in model.get_weights()])\n"
CALLBACK = (
    "shuffle=False, verbose=0",
    "verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]",
)
WRAPPED, RATE = "hvd.DistributedOptimizer(optimizer)", "args.rate * hvd.size()"
LOSS = 'hvd.allreduce(history["loss"][-1])'
TAPE = "    tape = hvd.DistributedGradientTape(tape)\n"
SHUFFLED = "tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9999, seed=1).batch(args.batch * hvd.size())"
BY_HAND = [
    ("model = torch.nn.parallel.DistributedDataParallel(model)\n",
     "for weight in model.parameters():\n    dist.broadcast(weight.data, 0)\n"),
    ("        optimizer.step()\n",
     "        for weight in model.parameters():\n            dist.all_reduce(weight.grad)\n"
     "            weight.grad /= ranks\n        optimizer.step()\n"),
]  # fmt: skip

RIGHT = {
    "fit: the model answer": (FIT, []),
    "fit: Horovod's callbacks, contiguous shards, shuffled": (
        FIT,
        [(SHARD, "x, y = np.split(x, hvd.size())[hvd.rank()], np.split(y, hvd.size())[hvd.rank()]\n"),
         (BROADCAST, ""), CALLBACK, (LOSS, 'history["loss"][-1]')],
    ),
    "fit: a sharded tf.data.Dataset, the last rank's weights": (
        FIT,
        [(SHARD, "data = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(args.batch)\n"),
         ("fit(x, y, batch_size=args.batch, ", "fit(data, "), ("broadcast(w, 0)", "broadcast(w, hvd.size() - 1)")],
    ),
    "loop: with DistributedGradientTape": (LOOP, []),
    "loop: summed in one vector, with the rate of one rank": (
        LOOP,
        [(TAPE, ""), ("args.rate * hvd.size()", "args.rate"),
         ("    optimizer.apply",
          "    flat = hvd.allreduce(tf.concat([tf.reshape(g, [-1]) for g in gradients], 0), op=hvd.Sum)\n"
          "    parts = tf.split(flat, [g.shape.num_elements() for g in gradients])\n"
          "    gradients = [tf.reshape(part, g.shape) for part, g in zip(parts, gradients)]\n    optimizer.apply")],
    ),
    "loop: every rank reads the global batch, and takes its part": (
        LOOP,
        [("tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(args.batch)", SHUFFLED),
         ("step(*batch) for", "step(*(part[hvd.rank() :: hvd.size()] for part in batch)) for")],
    ),
    "torch: DDP and a DistributedSampler": (TORCH, []),
    "torch: gradients averaged by hand": (TORCH, BY_HAND),
}  # fmt: skip
# The script, its changes, the checks that it does not pass besides the weights', and a word of a sentence.
WRONG = {
    "unchanged": (ANSWERS["one_device.py"], [], "own_samples averaged scaled began_alike true_metrics one_writer", "different samples"),
    "no shards": (FIT, [(SHARD, "")], "own_samples", "each rank takes its own shard"),
    "the batch is divided": (
        FIT, [("batch_size=args.batch", "batch_size=args.batch // hvd.size()")], "own_samples", "not 2 × 480"
    ),
    "epochs are divided": (FIT, [("epochs=args.epochs", "epochs=args.epochs // hvd.size()")], "right_steps", "epochs"),
    "the optimizer is not wrapped": (FIT, [(WRAPPED, "optimizer")], "averaged", "own samples only"),
    # Since Keras 2.11, Horovod's wrapped optimizer averages in `fit` and `minimize` alone.
    "loop: the optimizer is wrapped, not the tape": (
        LOOP, [(TAPE, ""), ("\n\n\n@tf", "\noptimizer = hvd.DistributedOptimizer(optimizer)\n\n\n@tf")], "averaged",
        "own samples",
    ),
    "the rate of one rank": (FIT, [(RATE, "args.rate")], "scaled", "one rank's batch"),
    "the rate is scaled twice": (FIT, [(RATE, f"{RATE} * hvd.size()")], "scaled", "scaled twice"),
    "loop: summed and scaled": (LOOP, [("Tape(tape)\n    g", "Tape(tape, op=hvd.Sum)\n    g")], "scaled", "summed"),
    "no broadcast": (FIT, [(BROADCAST, "")], "began_alike", "own initial weights"),
    "the loss of one rank": (FIT, [(LOSS, 'history["loss"][-1]')], "true_metrics", "the mean over all ranks"),
    "all ranks write": (FIT, [("if hvd.rank() == 0:\n    ", "")], "one_writer", "ranks 0 and 1 wrote"),
    "torch: not wrapped": (
        TORCH, [("model = torch.nn.parallel.DistributedDataParallel(model)\n", "")], "averaged began_alike", "own samples"
    ),
}  # fmt: skip
FAILS = {
    "PyTorch is not installed": (
        TORCH, [("import torch\n", "raise ModuleNotFoundError('x', name='torch')\n")], "PyTorch is not installed"
    ),
    "it ends too early": (FIT, [("hvd.init()", "import os\nos._exit(0)")], "ended before its script did"),
    "it reports nothing": (FIT, [("report(model.weights, loss=loss, samples=samples)\n", "")], "reported nothing"),
    "it fails": (FIT, [("hvd.init()", "hvd.init()\nif hvd.rank(): 1 / 0")], "rank 1 raised ZeroDivisionError in line 15"),
    "ranks wait for each other": (
        LOOP,
        [("report(", "hvd.allreduce(losses[0]) if hvd.rank() else hvd.broadcast(losses[0], 0)\nreport(")],
        r"did not end within 20 s \(rank 0 is still running in line \d+, rank 1",
    ),
}  # fmt: skip


@pytest.fixture
def lost_points(lost):
    """Return a function that launches a script on some ranks, and gives the sentences of the checks it fails."""

    def check(script, ranks):
        if "import torch" in script:
            pytest.importorskip("torch")
        checks = {check.__name__: check for check in conversion.CHECKS}
        return lost(script, partial(conversion.training, "my_training.py", ranks, 5), checks)

    return check


@pytest.mark.parametrize("script, changes", RIGHT.values(), ids=RIGHT)
def test_right_script_keeps_all_points(lost_points, script, changes):
    assert lost_points(changed(script, changes), 3) == {}


@pytest.mark.parametrize("script, changes, loses, word", WRONG.values(), ids=WRONG)
def test_mistake_loses_its_own_points(lost_points, script, changes, loses, word):
    found = lost_points(changed(script, changes), 2)
    weights = set(loses.split()) - {"true_metrics", "one_writer"}
    assert found.keys() == set(loses.split()) | ({"same_weights"} if weights else set()), found
    assert any(word in sentence for sentence in found.values()), found


@pytest.mark.parametrize("script, changes, sentence", FAILS.values(), ids=FAILS)
def test_failed_script_gives_the_reason(ranks, lost_points, monkeypatch, script, changes, sentence):
    if "did not end" in sentence:
        monkeypatch.setattr(ranks, "_limits", Limits(launch_s=20))
    with pytest.raises(AssertionError, match=sentence):
        lost_points(changed(script, changes), 2)


def test_graded_launch_leaves_no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path))
    script = "from course import initial_weights, report\nreport(initial_weights([]), 1, 2)\nopen('model.weights', 'w')"
    request = {"file": "mine.py", "script": script, "program": "", "args": [], "ranks": 2, "seconds": 60}
    reply = launch_worker.perform(request | {"files": encode({"initial.npz": {}})})
    assert [(rank["done"], rank["wrote"], "error" in rank) for rank in reply["ranks"]] == [(True, True, False)] * 2
    assert {name: value.item() for name, value in decode(reply["ranks"][0]["report"]).items()} == {
        "loss": 1,
        "samples": 2,
    }
    assert not reply["late"] and not list(tmp_path.iterdir())


# ---------------------------------------------------------------- a loop for replicas

STEP = ANSWERS["my_loop.py"]
UPDATE = "        optimizer.apply_gradients(zip(gradients, weights))\n"
RIGHT_LOOPS = {
    "the model answer": [],
    "summed and divided": [
        ("tf.nn.compute_average_loss(\n                losses, global_batch_size=global_batch)",
         "tf.reduce_sum(losses) / global_batch")
    ],
    "each replica's mean, over the replicas": [
        ("tf.nn.compute_average_loss(\n                losses, global_batch_size=global_batch)",
         "tf.reduce_mean(losses) / strategy.num_replicas_in_sync"),
    ],
}  # fmt: skip
WRONG_LOOPS = {
    "the mean of each replica": (
        [("tf.nn.compute_average_loss(\n                losses, global_batch_size=global_batch)",
          "tf.reduce_mean(losses)")],
        {"single_step"},
        "the weights' update is 3 times a single device's",
    ),
    "the sum of the losses": (
        [("return loss\n\n    @", "return tf.reduce_sum(losses)\n\n    @")],
        {"single_step"},
        "the mean loss is",
    ),
    "no update": ([(UPDATE, "")], {"single_step", "learns"}, "chance is 10%"),
    "an update the other way": (
        [(UPDATE, UPDATE.replace("gradients,", "[-g for g in gradients],"))],
        {"single_step", "learns"},
        "-1 times a single device's",
    ),
    "the bias is left out": ([("zip(gradients, weights)", "zip(gradients[:-1], weights[:-1])")], {"single_step"}, "off by"),
}  # fmt: skip


@pytest.fixture
def lost_by_loop(lost):
    """Return a function that tries a loop on three replicas, and gives the sentences of the checks it fails."""
    trial = partial(own_loop.trial, "my_loop.py", seed=7, replicas=3)
    return lambda script: lost(script, trial, {"single_step": own_loop.single_step, "learns": own_loop.learns})


@pytest.mark.parametrize("changes", RIGHT_LOOPS.values(), ids=RIGHT_LOOPS)
def test_right_loop_keeps_all_points(lost_by_loop, changes):
    assert lost_by_loop(changed(STEP, changes)) == {}


@pytest.mark.parametrize("changes, loses, sentence", WRONG_LOOPS.values(), ids=WRONG_LOOPS)
def test_wrong_loop_loses_its_points(lost_by_loop, changes, loses, sentence):
    found = lost_by_loop(changed(STEP, changes))
    assert set(found) == loses and any(sentence in text for text in found.values()), found


def test_failed_loop_gives_the_reason(ranks, lost_by_loop, monkeypatch):
    with pytest.raises(AssertionError, match="my_loop.py.*make_step"):
        lost_by_loop("def make_steps():\n    pass\n")
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=10))
    with pytest.raises(AssertionError, match="my_loop.py.*did not end within 10 s"):
        lost_by_loop(STEP.replace("    return step", "    while True:\n        pass"))


# ---------------------------------------------------------------- one line that repairs a call

COUNTS, COMPRESSED, MOMENTS = (ANSWERS[f"my_{name}.py"] for name in ("counts", "compressed", "moments"))
DIVIDED = "values / hvd.size(), op=hvd.Sum,"
RIGHT_REPAIRS = {
    "counts": ("counts", COUNTS, []),
    "counts: summed, then divided": (
        "counts", COUNTS, [("hvd.allreduce(tf.cast(values, tf.float32))", "hvd.allreduce(values, op=hvd.Sum) / hvd.size()")]
    ),
    "compressed": ("compressed", COMPRESSED, []),
    "compressed: a factor before": ("compressed", COMPRESSED, [(DIVIDED, "values, op=hvd.Sum, prescale_factor=1 / hvd.size(),")]),
    "moments": ("moments", MOMENTS, []),
    "moments: gathered": (
        "moments", MOMENTS,
        [("hvd.allreduce(total) / hvd.allreduce(samples)", "tf.reduce_mean(hvd.allgather(values), axis=0)")],
    ),
}  # fmt: skip
WRONG_REPAIRS = {
    "counts as they are": ("counts", COUNTS, [("tf.cast(values, tf.float32)", "values")]),
    "counts cast afterward": (
        "counts", COUNTS, [("hvd.allreduce(tf.cast(values, tf.float32))", "tf.cast(hvd.allreduce(values), tf.float32)")]
    ),
    "counts summed": ("counts", COUNTS, [("tf.float32))", "tf.float32), op=hvd.Sum)")]),
    "the sum overflows": ("compressed", COMPRESSED, [(DIVIDED, "values,")]),
    "no compression": ("compressed", COMPRESSED, [("Compression.fp16", "Compression.none")]),
    "divided twice": ("compressed", COMPRESSED, [(" op=hvd.Sum,", "")]),
    "divided by two": ("compressed", COMPRESSED, [("hvd.size()", "2")]),
    "a mean of means": ("moments", MOMENTS, [("hvd.allreduce(total) / hvd.allreduce(samples)", "hvd.allreduce(total / samples)")]),
    "one rank's samples": ("moments", MOMENTS, [("hvd.allreduce(samples)", "samples")]),
    "a sum by a mean": ("moments", MOMENTS, [("hvd.allreduce(total)", "hvd.allreduce(total, op=hvd.Sum)")]),
}  # fmt: skip


@pytest.fixture
def lost_by_repair(lost):
    """Return a function that tries a repair on three ranks, and gives the sentence of the check if it fails."""

    def tried(kind, script, changes):
        check = partial(getattr(repairs, kind), f"my_{kind}.py", seed=7, ranks=3)
        return lost(changed(script, changes), lambda: None, {kind: lambda _: check()})

    return tried


@pytest.mark.parametrize("repair", RIGHT_REPAIRS.values(), ids=RIGHT_REPAIRS)
def test_right_repair_keeps_its_point(lost_by_repair, repair):
    assert lost_by_repair(*repair) == {}


@pytest.mark.parametrize("repair", WRONG_REPAIRS.values(), ids=WRONG_REPAIRS)
def test_wrong_repair_loses_its_point(lost_by_repair, repair):
    assert lost_by_repair(*repair)
