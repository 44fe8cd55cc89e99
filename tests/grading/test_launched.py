"""Lesson 3's answers that are launched: right ones in several styles, and what each mistake loses.

A script made distributed runs on two or three ranks, a loop's step on two replicas. All launches share one process
with TensorFlow in it.
"""

import re
import shutil

import pytest

import lessons
from ddl.grader import Limits, conversion, launches, loop
from helpers import ROOT
from marking import sandbox

LESSON = ROOT / "grading" / "source" / "3.Multi-GPU" / "3.Multi-GPU.py"
ALL = {check.__name__ for check in conversion.CHECKS}


def answer_of(grade_id):
    notebook = lessons.master(LESSON.read_text())
    (cell,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return "\n".join(line for line in cell.source.splitlines()[1:] if "SOLUTION" not in line) + "\n"


MODEL = answer_of("q08_convert")
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
    "parts one after the other": [(MINE, "numbers[hvd.rank() * task.batch:][:task.batch]")],
    "reshaped": [(MINE, "numbers.reshape(hvd.size(), -1)[hvd.rank()]")],
    "every gradient by hand": [
        (TAPE, ""),
        (APPLY, "    gradients = [hvd.allreduce(g, op=hvd.Average) for g in gradients]\n" + APPLY),
    ],
    "grouped": [(TAPE, ""), (APPLY, "    gradients = hvd.grouped_allreduce(gradients, op=hvd.Average)\n" + APPLY)],
    "summed, with the rate of one rank": [("(tape)\n", "(tape, op=hvd.Sum)\n"), (RATE, "task.rate")],
    "every weight broadcast by itself": [
        (BROADCAST, "for weight in model.variables:\n    weight.assign(hvd.broadcast(weight, root_rank=0))\n")
    ],
    "all begin like the last rank": [("root_rank=0", "root_rank=hvd.size() - 1")],
    "the loss inside the graph": [
        ("return loss, tape.gradient(loss, model.trainable_variables)",
         "gradients = tape.gradient(loss, model.trainable_variables)\n    return hvd.allreduce(loss), gradients"),
        (LOSS, "loss=float(loss)"),
    ],
    "prints, and a file of its own": [("task.begin(", "print(hvd.rank(), 'of', hvd.size())\ntask.begin(")],
    "the rank from the start": [(INIT, INIT + "rank, size = hvd.rank(), hvd.size()\n"), (MINE, "numbers[rank::size]")],
}  # fmt: skip
# The mistake, what it loses besides the points for the weights, and what the sentence says.
WRONG = {
    "no shards": ([(MINE, "numbers")], {"own_samples"}, "samples were on more than one rank: each takes its own"),
    "every rank has the first part": (
        [(MINE, "numbers[0::hvd.size()]")],
        {"own_samples"},
        "samples were on more than one rank",
    ),
    "one sample too few": ([(MINE, MINE + "[1:]")], {"own_samples"}, "together trained on"),
    "off by one": ([(MINE, "numbers[hvd.rank() + 1::hvd.size()]")], {"own_samples"}, "together trained on"),
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
    "only the first gradient is averaged": (
        [(TAPE, ""), (APPLY, "    gradients = [hvd.allreduce(gradients[0]), *gradients[1:]]\n" + APPLY)],
        {"averaged"},
        "something else, not the mean",
    ),
    "rank 0's gradient for all": (
        [(TAPE, ""), (APPLY, "    gradients = [hvd.broadcast(g, 0) for g in gradients]\n" + APPLY)],
        {"averaged", "frozen_and_tied", "scaled"},
        "not the mean of all ranks' gradients",
    ),
    "the rate of one rank": ([(RATE, "task.rate")], {"scaled"}, "the rate of one rank's batch"),
    "summed and scaled": ([("(tape)\n", "(tape, op=hvd.Sum)\n")], {"scaled"}, "scaled twice, or summed and scaled"),
    "the rate by the square root": (
        [(RATE, "task.rate * hvd.size() ** 0.5")],
        {"scaled"},
        "another factor; the global batch's rate is",
    ),
    "the rate divided": ([(RATE, "task.rate / hvd.size()")], {"scaled"}, "another factor"),
    "no broadcast": ([(BROADCAST, "")], {"began_alike"}, "began with other weights than rank 0"),
    "broadcast after the first step": (
        [(BROADCAST, ""), ("    task.step(", "    " + BROADCAST + "    task.step(")],
        {"began_alike"},
        "began with other weights than rank 0",
    ),
    "only what is trained is broadcast": (
        [("model.variables, root", "model.trainable_variables, root")],
        {"frozen_and_tied"},
        "frozen weights are not rank 0's",
    ),
    "constant weights instead": (
        [(BROADCAST, "for weight in model.variables:\n    weight.assign(tf.fill(weight.shape, 0.1))\n")],
        {"began_alike"},
        "rank 0 began with weights that no rank has drawn",
    ),
    "frozen weights decay": (
        [("    task.step(", "    model.frozen.assign(0.99 * model.frozen)\n    task.step(")],
        {"frozen_and_tied"},
        "frozen weights have moved",
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
    "the sum of the losses": (
        [(LOSS, "loss=hvd.allreduce(loss, op=hvd.Sum)")],
        {"true_metrics"},
        "the mean of all ranks' is",
    ),
    "a loss of zero": ([(LOSS, "loss=0")], {"true_metrics"}, "told a loss of 0; the mean"),
    "one rank's samples counted": (
        [("samples=len(numbers)", "samples=len(mine)")],
        {"true_metrics"},
        "all ranks together trained on",
    ),
    "samples counted too often": (
        [("samples=len(numbers)", "samples=len(numbers) * hvd.size()")],
        {"true_metrics"},
        "all ranks together trained on",
    ),
    "all write": ([(WRITE, "task.save(model)\n")], {"one_writer"}, "wrote the weights; rank 0 alone is to"),
    "nobody writes": ([(WRITE, "")], {"one_writer"}, "no rank wrote the weights"),
    "the last rank writes": (
        [("if hvd.rank() == 0", "if hvd.rank() == hvd.size() - 1")],
        {"one_writer"},
        "wrote the weights; rank 0 alone",
    ),
}  # fmt: skip
RAISES = {
    "frozen weights are trained, too": (
        [("zip(gradients, model.trainable_variables)", "zip(gradients, model.variables, strict=True)")],
        r"rank \d raised ValueError in line 24: zip\(\) argument 2 is longer",
    ),
    "it exits with a status": (
        [("task.begin(", "raise SystemExit(3)\ntask.begin(")],
        "raised SystemExit in line 20: 3",
    ),
    "it says that all is well, and ends": (
        [("task.begin(", "print('passed')\nimport os\nos._exit(0)\ntask.begin(")],
        "called `begin` 0 times, not once",
    ),
    "one rank ends": ([("task.begin(", "import os\nif hvd.rank(): os._exit(5)\ntask.begin(")], "ended with status 5"),
    "one rank makes a call by itself": (
        [("if hvd.rank() == 0:\n", "if hvd.rank() == 0:\n    hvd.allreduce(loss)\n")],
        "rank 0 waited in line 27 for a rank that had ended: do all ranks make the same calls",
    ),
    "ranks wait for each other": (
        [("    task.step(", "    hvd.allreduce(loss) if hvd.rank() else hvd.broadcast(loss, 0)\n    task.step(")],
        r"did not end within 10 s \(rank 0 waits after step 0, rank 1 waits after step 0\): do all ranks make the same",
    ),
}


# Scripts that do something else, and say what is wanted; and what is true of them all the same.
FORGED = {
    "prints that it passed": ("print('passed')\nprint('{\"passed\": true}')", "called `begin` 0 times"),
    "writes its own record": (
        """
import json, os
weights = {"frozen": [[0.1] * 16] * 12, "tied": [[0.1] * 5] * 16, "inner": [0.1] * 5, "outer": [0.1] * 16}
steps = [{"event": "step", "samples": [k], "loss": 0.0, "counted": 16, "weights": weights} for k in range(6)]
rank = int(os.environ["HOROVOD_RANK"])
with open(f"witness-{rank}.jsonl", "w") as file:
    file.write("\\n".join(map(json.dumps, [{"event": "begin", "weights": weights}, *steps])))
if not rank:
    open("weights.npz", "w")
""",
        {"one_writer"},
    ),
    "a record of something else": (
        "import os\nopen('witness-' + os.environ['HOROVOD_RANK'] + '.jsonl', 'w').write("
        '\'[1]\\n{"event": "begin", "weights": {"tied": "x"}}\')',
        "record cannot be read",
    ),
    "patches what judges": (
        "import ddl.grader.conversion as c, ddl.grader.judge as j\nc._require = lambda *a: None\n"
        "j.judge = lambda *a: {'passed': True}\n" + ONE_DEVICE,
        {"frozen_and_tied"},
    ),
    "trains by itself, and tells of parts": (
        ONE_DEVICE.replace("task.rate", "2 * task.rate").replace("task.batches(", "task.batches(2 * ")
        + """
import json, os
rank = int(os.environ["HOROVOD_RANK"])
lines = [json.loads(line) for line in open(f"witness-{rank}.jsonl")]
with open(f"witness-{rank}.jsonl", "w") as file:
    for line in lines:
        print(json.dumps({**line, "samples": line.get("samples", [])[rank::2]}), file=file)
if rank:
    os.remove("weights.npz")
""",
        {"one_writer"},
    ),
}


@pytest.fixture(scope="module")
def ranks():
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    started = launches.Launches(sandbox.start_ranks, Limits(launch_s=60))
    yield started
    started.close()


@pytest.fixture
def lost(ranks, monkeypatch):
    """Return a function that launches a script, and gives the sentence of each check that it does not pass."""

    def check(script, sizes=(2, 3)):
        monkeypatch.setattr(launches, "launch", lambda request: ranks.answer(request, script))
        trained = [conversion.training("my_horovod.py", size, seed=5) for size in sizes]
        sentences = {}
        for check in conversion.CHECKS:
            try:
                for training in trained:
                    check(training)
            except AssertionError as error:
                sentences[check.__name__] = str(error)
        return sentences

    return check


def changed(script, changes):
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


@pytest.mark.slow
@pytest.mark.parametrize("changes", RIGHT.values(), ids=RIGHT)
def test_right_answers_in_other_styles_keep_all_points(lost, changes):
    assert lost(changed(MODEL, changes), sizes=[3] if changes else [2, 3]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("changes, loses, sentence", WRONG.values(), ids=WRONG)
def test_a_mistake_loses_its_own_points_with_its_own_sentence(lost, changes, loses, sentence):
    found = lost(changed(MODEL, changes), sizes=[2])
    assert loses <= set(found) <= loses | {"same_weights"}, found
    assert any(sentence in text for text in found.values()), found


@pytest.mark.slow
def test_the_script_for_one_device_is_not_distributed(lost):
    found = lost(ONE_DEVICE, sizes=[2])
    assert set(found) >= {"same_weights", "own_samples", "began_alike", "scaled", "true_metrics", "one_writer"}


@pytest.mark.slow
@pytest.mark.parametrize("changes, sentence", RAISES.values(), ids=RAISES)
def test_a_script_that_does_not_come_to_its_end_says_why(ranks, lost, monkeypatch, changes, sentence):
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=10))
    with pytest.raises(AssertionError, match=f"my_horovod.py on 2 ranks.*{sentence}"):
        lost(changed(MODEL, changes), sizes=[2])


@pytest.mark.slow
@pytest.mark.parametrize("script, earned", FORGED.values(), ids=FORGED)
def test_a_script_earns_nothing_by_what_it_says(lost, script, earned):
    if isinstance(earned, str):
        with pytest.raises(AssertionError, match=earned):
            lost(script, sizes=[2])
    else:
        assert ALL - set(lost(script, sizes=[2])) <= earned


# ---------------------------------------------------------------- a loop for replicas

STEP = answer_of("q16_svhn_loop")
SHARE = """        with tf.GradientTape() as tape:
            losses = each(labels, model(pictures, training=True))
            loss = tf.nn.compute_average_loss(
                losses, global_batch_size=global_batch)
"""
UPDATE = "        optimizer.apply_gradients(zip(gradients, weights))\n"
REDUCE = 'strategy.reduce("SUM", losses, axis=None)'
RIGHT_LOOPS = {
    "the model answer": [],
    "summed and divided": [
        ("tf.nn.compute_average_loss(\n                losses, global_batch_size=global_batch)",
         "tf.reduce_sum(losses) / global_batch")
    ],
    "Keras' loss, and an update by keyword": [
        ("each(labels, model(pictures, training=True))",
         "tf.keras.losses.SparseCategoricalCrossentropy(True, reduction='none')(labels, model(pictures))"),
        (REDUCE, "strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)"),
    ],
    "without a graph": [("    @tf.function\n", "")],
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
        "the weights' update is 2 times a single device's",
    ),
    "divided twice": (
        [("global_batch_size=global_batch)", "global_batch_size=global_batch) / 2")],
        {"single_step"},
        "the weights' update is 0.5 times a single device's",
    ),
    "the sum of the losses": (
        [("return loss\n\n    @", "return tf.reduce_sum(losses)\n\n    @")],
        {"single_step"},
        "the mean loss is",
    ),
    "the mean of the parts": ([(REDUCE, REDUCE.replace("SUM", "MEAN"))], {"single_step"}, "the mean loss is"),
    "one replica's loss": (
        [(REDUCE, "strategy.experimental_local_results(losses)[0]")],
        {"single_step"},
        "the mean loss is",
    ),
    "a loss of zero": ([(REDUCE, "0 * " + REDUCE)], {"single_step"}, "it returned 0; the mean loss is"),
    "no update": ([(UPDATE, "")], {"single_step", "learns"}, "chance is 10%"),
    "an update the other way": (
        [(UPDATE, UPDATE.replace("gradients,", "[-g for g in gradients],"))],
        {"single_step", "learns"},
        "-1 times a single device's",
    ),
    "the bias is left out": ([("zip(gradients, weights)", "zip(gradients[:-1], weights[:-1])")], {"single_step"}, "off by"),
    "one label for all": ([("each(labels,", "each(0 * labels,")], {"single_step", "learns"}, "chance is 10%"),
    "says that it learned": (
        [("import tensorflow as tf\n", "import tensorflow as tf, json, os\nopen('witness-0.jsonl', 'w').write(json.dumps("
          "{'event': 'trained', 'samples': 1280, 'said': [0] * 400}) + '\\n')\nos._exit(0)\n")],
        {"single_step", "learns"},
        "chance is 10%",
    ),
}  # fmt: skip


def lost_by(ranks, monkeypatch, script):
    monkeypatch.setattr(launches, "launch", lambda request: ranks.answer(request, script))
    trial, sentences = loop.trial("my_loop.py", seed=7), {}
    for check in (loop.single_step, loop.learns):
        try:
            check(trial)
        except AssertionError as error:
            sentences[check.__name__] = str(error)
    return sentences


@pytest.mark.slow
@pytest.mark.parametrize("changes", RIGHT_LOOPS.values(), ids=RIGHT_LOOPS)
def test_a_right_loop_keeps_all_points(ranks, monkeypatch, changes):
    assert lost_by(ranks, monkeypatch, changed(STEP, changes)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("changes, loses, sentence", WRONG_LOOPS.values(), ids=WRONG_LOOPS)
def test_a_wrong_loop_loses_points_by_its_run(ranks, monkeypatch, changes, loses, sentence):
    found = lost_by(ranks, monkeypatch, changed(STEP, changes))
    assert set(found) == loses and any(sentence in text for text in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "script, sentence",
    [
        ("def make_steps():\n    pass\n", "it does not define make_step"),
        (STEP.replace("    return step", "    while True:\n        pass"), "did not end within 10 s"),
        (STEP.replace("        return loss\n", "        raise ValueError('no')\n"), "raised ValueError"),
    ],
)
def test_a_loop_that_does_not_come_to_its_end_says_why(ranks, monkeypatch, script, sentence):
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=10 if "while" in script else 60))
    with pytest.raises(AssertionError, match=f"my_loop.py.*{sentence}"):
        lost_by(ranks, monkeypatch, script)
