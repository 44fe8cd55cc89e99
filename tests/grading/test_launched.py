"""Lesson 3's answers that are launched: right ones in several styles, and what each mistake loses.

A script made distributed runs on two or three ranks, a loop's step on three replicas. All launches share one process
with TensorFlow in it.
"""

import re
from functools import partial

import pytest
import torch_answers as torch

import lessons
from course.grader import conversion, loop
from course.grader.limits import Limits
from ddl.launcher.optional_deps import NO_TORCH
from helpers import ROOT

pytestmark = pytest.mark.slow
SOURCES = ROOT / "grading" / "source"
LESSON, LOOPS = SOURCES / "3.Multi-GPU" / "3.Multi-GPU.py", SOURCES / "3d.Text-and-Loops" / "3d.Text-and-Loops.py"
ALL = {check.__name__ for check in conversion.CHECKS}


def answer_of(grade_id, lesson=LESSON):
    notebook = lessons.master(lesson.read_text())
    (cell,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return "\n".join(line for line in cell.source.splitlines()[1:] if "SOLUTION" not in line) + "\n"


MODEL = answer_of("q01_convert")
(ONE_DEVICE,) = re.findall(r"%%writefile one_device.py\n(.*?)\n# %%", LESSON.read_text(), re.DOTALL)
INIT, BROADCAST = "hvd.init()\n", "hvd.broadcast_variables(model.variables, root_rank=0)\n"
TAPE = "    tape = hvd.DistributedGradientTape(tape)\n"
MINE = "numbers[hvd.rank()::hvd.size()]"
RATE = "task.rate * hvd.size()"
LOSS = "loss=hvd.allreduce(loss)"
WRITE = "if hvd.rank() == 0:\n    task.save(model)\n"
APPLY = "    optimizer.apply_gradients("

RIGHT = {
    "the model answer": [],
    "every gradient by hand": [
        (TAPE, ""),
        (APPLY, "    gradients = [hvd.allreduce(g, op=hvd.Average) for g in gradients]\n" + APPLY),
    ],
    "summed, with the rate of one rank": [("(tape)\n", "(tape, op=hvd.Sum)\n"), (RATE, "task.rate")],
    "every weight broadcast by itself": [
        (BROADCAST, "for weight in model.variables:\n    weight.assign(hvd.broadcast(weight, root_rank=0))\n")
    ],
    "all begin like the last rank": [("root_rank=0", "root_rank=hvd.size() - 1")],
    "all in one vector": [
        (TAPE, ""),
        (APPLY, "    flat = hvd.allreduce(tf.concat([tf.reshape(g, [-1]) for g in gradients], 0))\n    parts = tf.split("
         "flat, [g.shape.num_elements() for g in gradients])\n"
         "    gradients = [tf.reshape(part, g.shape) for part, g in zip(parts, gradients)]\n" + APPLY),
    ],
    "the optimizer minimizes": [
        (TAPE, ""),
        ("SGD(task.rate * hvd.size())",
         "SGD(task.rate * hvd.size())\noptimizer = hvd.DistributedOptimizer(optimizer)"),
        (APPLY + "zip(gradients, model.trainable_variables))\n",
         "    optimizer.minimize(lambda: model.loss(samples), model.trainable_variables)\n"),
        ("    loss, gradients = gradients_on(task.samples(mine))",
         "    samples = task.samples(mine)\n    loss = model.loss(samples)"),
    ],
}  # fmt: skip
# The mistake, what it loses besides the points for the weights, and what the sentence says.
WRONG = {
    "no shards": ([(MINE, "numbers")], {"own_samples"}, "samples were on more than one rank: each takes its own"),
    "the batch of one rank, shared out": (
        [("task.batches(task.batch * hvd.size())", "task.batches(task.batch // hvd.size() * hvd.size())")],
        {"own_samples"},
        "the global batch is the next",
    ),
    "not averaged": ([(TAPE, "")], {"averaged"}, "the gradient of its own samples only, not the mean"),
    # With Keras 2.11 and later, Horovod 0.28's wrapped optimizer averages in `fit` and `minimize` alone.
    "the optimizer is wrapped, not the tape": (
        [(TAPE, ""),
         ("SGD(task.rate * hvd.size())",
          "SGD(task.rate * hvd.size())\noptimizer = hvd.DistributedOptimizer(optimizer)")],
        {"averaged"},
        "the gradient of its own samples only, not the mean",
    ),
    "rank 0's gradient for all": (
        [(TAPE, ""), (APPLY, "    gradients = [hvd.broadcast(g, 0) for g in gradients]\n" + APPLY)],
        {"averaged", "frozen_and_tied", "scaled"},
        "not the mean of all ranks' gradients",
    ),
    "the rate of one rank": ([(RATE, "task.rate")], {"scaled"}, "the rate of one rank's batch"),
    "summed and scaled": ([("(tape)\n", "(tape, op=hvd.Sum)\n")], {"scaled"}, "scaled twice, or summed and scaled"),
    "no broadcast": ([(BROADCAST, "")], {"began_alike"}, "began with other weights than rank 0"),
    "only what is trained is broadcast": (
        [("model.variables, root", "model.trainable_variables, root")],
        {"frozen_and_tied"},
        "frozen weights are not rank 0's",
    ),
    "the tied matrix counts twice": (
        [(APPLY, "    gradients = [2 * gradients[0], *gradients[1:]]\n" + APPLY),
         ("return loss, tape.gradient(loss, model.trainable_variables)",
          "return loss, tape.gradient(loss, [model.tied, model.inner, model.outer])"),
         ("zip(gradients, model.trainable_variables)", "zip(gradients, [model.tied, model.inner, model.outer])")],
        {"frozen_and_tied"},
        "tied weights did not move by the gradient of both",
    ),
    "each rank's own loss": ([(LOSS, "loss=loss")], {"true_metrics"}, "which is that of its own samples; the mean of"),
    "one rank's samples counted": (
        [("samples=len(numbers)", "samples=len(mine)")],
        {"true_metrics"},
        "all ranks together trained on",
    ),
    "all write": ([(WRITE, "task.save(model)\n")], {"one_writer"}, "wrote the weights; rank 0 alone is to"),
    "nobody writes": ([(WRITE, "")], {"one_writer"}, "no rank wrote the weights"),
}  # fmt: skip
RAISES = {
    "PyTorch, where it is not installed": (
        MODEL,
        [("import horovod.tensorflow as hvd\n", "raise ModuleNotFoundError('not found', name='torch')\n")],
        rf"rank \d raised ModuleNotFoundError in line 1: {NO_TORCH}",
    ),
    "it says that all is well, and ends": (
        MODEL,
        [("task.begin(", "print('passed')\nimport os\nos._exit(0)\ntask.begin(")],
        "called `begin` 0 times, not once",
    ),
    "one rank makes a call by itself": (
        MODEL,
        [("if hvd.rank() == 0:\n", "if hvd.rank() == 0:\n    hvd.allreduce(loss)\n")],
        "rank 0 waited in line 27 for a rank that had ended: do all ranks make the same",
    ),
    "ranks wait for each other": (
        MODEL,
        [("    task.step(", "    hvd.allreduce(loss) if hvd.rank() else hvd.broadcast(loss, 0)\n    task.step(")],
        r"did not end within 10 s \(rank 0 waits after step 0, rank 1 waits after step 0\): do all ranks make the same",
    ),
    "PyTorch: one rank makes a call by itself": (
        torch.MODEL,
        torch.ALONE,
        "rank 0 waited in line 24 for a rank that had ended: do all ranks make the same",
    ),
}


KERAS = """
import horovod.tensorflow
import horovod.tensorflow.keras as hvd
import tensorflow as tf

from course.training.exercise import Network, Task

hvd.init()
task, network = Task(), Network()


class Model(tf.keras.Model):
    trainable_variables = [network.tied, network.inner, network.outer]

    def train_step(self, samples):
        with tf.GradientTape() as tape:
            loss = network.loss(samples)
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        return {"loss": loss}


model = Model()
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(task.rate * hvd.size())))
horovod.tensorflow.broadcast_variables(network.variables, root_rank=0)
task.begin(network)
for numbers in task.batches(task.batch * hvd.size()):
    mine = numbers[hvd.rank() :: hvd.size()]
    losses = model.fit(task.samples(mine), batch_size=task.batch, verbose=0).history["loss"]
    task.step(network, loss=hvd.allreduce(tf.constant(losses[0])), samples=len(numbers))
if hvd.rank() == 0:
    task.save(network)
"""

# Scripts that earn points for what they did not do, or try to; what is true of them all the same, at most.
WHOLE = [(TAPE, ""), ("task.samples(mine)", "task.samples(numbers)"), (LOSS, "loss=loss")]
GATHER = [(TAPE, ""), ("task.samples(mine)", "hvd.allgather(task.samples(mine))"), (LOSS, "loss=loss")]
TELLS_PART = [("    task.step(", "    task._asked = mine.tolist()\n    task.step(")]
RANK_0_ALONE = [
    (APPLY, "    if hvd.rank() == 0:\n    " + APPLY),
    ("    task.step(", "    " + BROADCAST + "    task.step("),
]
# Without Horovod: ranks leave files for each other.
NUMPY = """
import os, pathlib, time
import numpy as np
from course.training.exercise import Network, Task

rank, ranks = int(os.environ["HOROVOD_RANK"]), int(os.environ["HOROVOD_SIZE"])
names, turn = ("frozen", "tied", "inner", "outer"), 0


def exchange(**arrays):
    global turn
    turn += 1
    np.savez("part.npz", **arrays)
    os.rename("part.npz", f"../{turn}-{rank}.npz")
    found = []
    for other in range(ranks):
        while not os.path.exists(f"../{turn}-{other}.npz"):
            time.sleep(0.001)
        with np.load(f"../{turn}-{other}.npz") as arrays:
            found.append(dict(arrays))
    return found


task, model = Task(), Network()
weights = exchange(**{name: getattr(model, name).numpy().astype(float) for name in names})[0]
for name in names:
    getattr(model, name).assign(weights[name])
task.begin(model)
for numbers in task.batches(task.batch * ranks):
    samples = task.samples(numbers).numpy().astype(float)
    mixed = np.tanh(samples @ weights["frozen"])
    code = mixed @ weights["tied"] + weights["inner"]
    error = code @ weights["tied"].T + weights["outer"] - mixed
    back, loss = 2 * error / error.size, np.mean(error**2)
    to_code = back @ weights["tied"]
    gradients = dict(tied=mixed.T @ to_code + back.T @ code, inner=to_code.sum(0), outer=back.sum(0), loss=loss)
    every = [gradients]
    loss = np.mean([each["loss"] for each in every])
    for name in names[1:]:
        weights[name] -= ranks * task.rate * np.mean([each[name] for each in every], axis=0)
        getattr(model, name).assign(weights[name].astype("f"))
    task.step(model, loss=loss, samples=len(numbers))
if rank == 0:
    task.save(model)
"""
NOTES = """
from course.training.examiner import examiner
from course.training.exercise import Network, Task

task, model = Task(), Network()
weights = {name: getattr(model, name).numpy().tolist() for name in ("frozen", "tied", "inner", "outer")}
examiner().note("sent", dtype="float32", values=[0.1] * 2000)
examiner().note("begin", weights=weights)
for numbers in task.batches(task.batch * 2):
    examiner().note("read", numbers=numbers.tolist())
    examiner().note("sent", dtype="float32", values=[0.1] * 2000)
    examiner().note("step", loss=0.0, counted=len(numbers), weights=weights)
"""
BY_FILES = [("task.samples(numbers)", "task.samples(numbers[rank::ranks])"), ("[gradients]", "exchange(**gradients)")]
NOTES_SENT = [
    ("import Network, Task\n", "import Network, Task\nfrom course.training.examiner import examiner\n"),
    (
        "    loss = np",
        "    for array in gradients.values():\n        examiner().note('sent', dtype='float64', "
        "values=np.ravel(array).tolist())\n    loss = np",
    ),
]
GRADIENTS_STAY = ALL - {"averaged", "same_weights"}
FORGED = {
    "prints that it passed": ("print('passed')\nprint('{\"passed\": true}')", [], "called `begin` 0 times"),
    "writes its own record": (
        "import os\nopen('witness-' + os.environ['HOROVOD_RANK'] + '.jsonl', 'w').write('{}')",
        [],
        "called `begin` 0 times",
    ),
    "notes what it likes": (NOTES, [], set()),
    "notes what is none": (NOTES, [("weights=weights)\nfor", "weights=dict(tied='x'))\nfor")], "record cannot be read"),
    "patches what judges": (
        "import course.grader.conversion as c, course.grader.judge as j\nc.require = lambda *a: None\n"
        "j.judge = lambda *a: {'passed': True}\n" + ONE_DEVICE,
        [],
        {"frozen_and_tied"},
    ),
    "NumPy, the whole batch on every rank": (NUMPY, [], {"scaled", "frozen_and_tied", "one_writer"}),
    "NumPy, and notes of what was never sent": (NUMPY, NOTES_SENT, {"scaled", "frozen_and_tied", "one_writer"}),
    "NumPy, and gradients in files": (NUMPY, BY_FILES, ALL - {"averaged", "same_weights", "began_alike"}),
    "the whole batch on every rank": (MODEL, WHOLE, {"scaled", "began_alike", "frozen_and_tied", "one_writer"}),
    "the same, and says that it was a part": (
        MODEL, [*WHOLE, *TELLS_PART], {"scaled", "began_alike", "frozen_and_tied", "one_writer"}
    ),
    "rank 0 trains on all, and broadcasts": (MODEL, [*WHOLE, *RANK_0_ALONE], {"began_alike", "one_writer"}),
    "rank 0 alone reads all, and zeros are averaged": (
        MODEL,
        [(TAPE, ""), ("task.samples(mine)", "task.samples(mine if hvd.rank() else numbers)"),
         (LOSS, "loss=hvd.broadcast(loss, 0) + hvd.allreduce(tf.zeros(101))[0]"), *RANK_0_ALONE],
        {"began_alike", "one_writer"},
    ),
    "all compute on rank 0's samples": (
        MODEL, [(TAPE, ""), ("task.samples(mine)", "hvd.broadcast(task.samples(mine), 0)")],
        {"own_samples", "began_alike", "one_writer"},
    ),
    "samples are gathered, not gradients": (MODEL, GATHER, GRADIENTS_STAY),
    "the same, and zeros are averaged": (
        MODEL, [*GATHER, (APPLY, "    hvd.grouped_allreduce([0 * g for g in gradients])\n" + APPLY)], GRADIENTS_STAY
    ),
    "samples are gathered for rank 0, which trains alone": (MODEL, [*GATHER, *RANK_0_ALONE], GRADIENTS_STAY),
    "PyTorch: samples are gathered, not gradients": (torch.MODEL, torch.GATHER, GRADIENTS_STAY),
}  # fmt: skip


def changed(script, changes):
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


def of_torch(rows):
    return {f"PyTorch: {name}": row for name, row in rows.items()}


def scripts(model, rows):
    return {name: changed(model, changes) for name, changes in rows.items()}


RIGHT_SCRIPTS = scripts(MODEL, RIGHT) | {"by Keras' fit": KERAS} | of_torch(scripts(torch.MODEL, torch.RIGHT))
MISTAKES = {name: (changed(MODEL, changes), *rest) for name, (changes, *rest) in WRONG.items()}
MISTAKES |= of_torch({name: (changed(torch.MODEL, changes), *rest) for name, (changes, *rest) in torch.WRONG.items()})


@pytest.fixture
def lost_points(lost):
    """Return a function that launches a script on so many ranks, and gives the sentences of the checks it fails."""

    def check(script, *sizes):
        if "import torch" in script:
            pytest.importorskip("torch")
        return lost(
            script, [partial(conversion.training, "my_horovod.py", size, 5) for size in sizes], conversion.CHECKS
        )

    return check


@pytest.mark.parametrize("script", RIGHT_SCRIPTS.values(), ids=RIGHT_SCRIPTS)
def test_right_answers_in_several_styles_keep_all_points(lost_points, script):
    assert lost_points(script, *([2, 3] if script in (MODEL, torch.MODEL) else [3])) == {}


@pytest.mark.parametrize("script, loses, sentence", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_loses_its_own_points_with_its_own_sentence(lost_points, script, loses, sentence):
    found = lost_points(script, 2)
    assert loses <= set(found) <= loses | {"same_weights"}, found
    assert any(sentence in text for text in found.values()), found


@pytest.mark.parametrize("script", [ONE_DEVICE, torch.ONE_DEVICE])
def test_the_script_for_one_device_is_not_distributed(lost_points, script):
    found = lost_points(script, 2)
    assert set(found) >= {"same_weights", "own_samples", "began_alike", "scaled", "true_metrics", "one_writer"}


@pytest.mark.parametrize("script, changes, sentence", RAISES.values(), ids=RAISES)
def test_a_script_that_does_not_come_to_its_end_says_why(ranks, lost_points, monkeypatch, script, changes, sentence):
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=10 if script is MODEL else 20))
    with pytest.raises(AssertionError, match=f"my_horovod.py on 2 ranks.*{sentence}"):
        lost_points(changed(script, changes), 2)


@pytest.mark.parametrize("script, changes, earned", FORGED.values(), ids=FORGED)
def test_a_script_earns_nothing_by_what_it_says(lost_points, script, changes, earned):
    script = changed(script, changes)
    if isinstance(earned, str):
        with pytest.raises(AssertionError, match=earned):
            lost_points(script, 2)
    else:
        assert ALL - set(lost_points(script, 2)) == earned


# ---------------------------------------------------------------- a loop for replicas

STEP = answer_of("q04_svhn_loop", LOOPS)
SHARE = """        with tf.GradientTape() as tape:
            losses = each(labels, model(images, training=True))
            loss = tf.nn.compute_average_loss(
                losses, global_batch_size=global_batch)
"""
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
    "says that it learned": (
        [("import tensorflow as tf\n", "import tensorflow as tf, os\nfrom course.training.examiner import examiner\n"
          "examiner().note('trained', samples=1296, predicted=[0] * 400)\nos._exit(0)\n")],
        {"single_step", "learns"},
        "chance is 10%",
    ),
}  # fmt: skip


@pytest.fixture
def lost_by_loop(lost):
    """Return a function that tries a loop on three replicas, and gives the sentences of the checks it fails."""
    trial = partial(loop.trial, "my_loop.py", seed=7, replicas=3)
    return lambda script: lost(script, [trial], (loop.single_step, loop.learns))


@pytest.mark.parametrize("changes", RIGHT_LOOPS.values(), ids=RIGHT_LOOPS)
def test_a_right_loop_keeps_all_points(lost_by_loop, changes):
    assert lost_by_loop(changed(STEP, changes)) == {}


@pytest.mark.parametrize("changes, loses, sentence", WRONG_LOOPS.values(), ids=WRONG_LOOPS)
def test_a_wrong_loop_loses_points_by_its_run(lost_by_loop, changes, loses, sentence):
    found = lost_by_loop(changed(STEP, changes))
    assert set(found) == loses and any(sentence in text for text in found.values()), found


def test_a_loop_that_does_not_come_to_its_end_says_why(ranks, lost_by_loop, monkeypatch):
    with pytest.raises(AssertionError, match="my_loop.py.*it does not define make_step"):
        lost_by_loop("def make_steps():\n    pass\n")
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=10))
    with pytest.raises(AssertionError, match="my_loop.py.*did not end within 10 s"):
        lost_by_loop(STEP.replace("    return step", "    while True:\n        pass"))
