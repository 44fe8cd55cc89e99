"""Lesson 6's scripts on real ranks: however a model is split, it is the same training, and bytes are as computed."""

import importlib.util
import json

import numpy as np
import pytest

from course import memory, pipeline
from ddl import RunFailed, launch
from ddl.errors import InputError
from helpers import ROOT, answers, launched, launches

pytestmark = pytest.mark.slow("source_code/course/sharding/*")

SCRIPTS = ROOT / "source_code/course/sharding/scripts"
WIDTH, DEPTH, HEADS, LENGTH, BATCH = 256, 1, 4, 64, 8  # of all ranks together; TensorFlow does not count small tensors
NETWORK = memory.Network(WIDTH, DEPTH, HEADS, LENGTH, BATCH)
OUTPUT = WIDTH * memory.SYMBOLS  # weights of the last layer
SHAPE = dict(width=WIDTH, depth=DEPTH, heads=HEADS, length=LENGTH, steps=3, threads=1, oversubscribe=True)
SETTINGS = {
    "one": dict(workers=1, batch=BATCH),
    "checkpoint": dict(workers=1, batch=BATCH, checkpoint=True),
    "tensor": dict(workers=2, batch=BATCH, tensor=2),
    "sequence": dict(workers=2, batch=BATCH, tensor=2, sequence=True),
    **{f"stage {stage}": dict(workers=2, batch=BATCH // 2, stage=stage) for stage in range(4)},
}
SUMS = 4 * DEPTH  # of all ranks' results: two layers in a block, forward and back
SENT = {
    "one": 0,
    "checkpoint": 0,
    "tensor": 4 * SUMS * BATCH * LENGTH * WIDTH,
    # In each layer, one more gather in the backward pass; and one after the embedding and one before the output.
    "sequence": (4 * SUMS + 2 * (2 * DEPTH + 2)) * BATCH * LENGTH * WIDTH,
    **{f"stage {stage}": 4 * NETWORK.parameters for stage in range(3)},
    "stage 3": 2 * (3 * NETWORK.parameters - OUTPUT),  # the last layer is gathered once
}
WHOLE = NETWORK.parameters - 12 * DEPTH * WIDTH**2  # what tensor parallelism does not share out
KEPT = {
    **dict.fromkeys(("one", "checkpoint", "stage 0"), 12 * NETWORK.parameters),
    **dict.fromkeys(("stage 1", "stage 2"), 8 * NETWORK.parameters),
    "stage 3": 6 * NETWORK.parameters,
    **dict.fromkeys(("tensor", "sequence"), 6 * (NETWORK.parameters + WHOLE)),
}

GLOBAL = 12  # samples of a step, which 2, 3 and 4 ranks divide
PARTS = dict(script="train_transformer.py", width=64, depth=1, length=16, threads=1, oversubscribe=True)
PIPE = dict(
    script="run_pipeline.py", learning_rate=1e-3, width=32, depth=4, heads=4, length=8, batch=2, steps=3, threads=1
)


def piped(folder):
    """Run GPipe on one and two ranks, and 1F1B from files, also interleaved."""
    two = dict(workers=2, oversubscribe=True)
    calls = {"one": PIPE | dict(workers=1), "GPipe": PIPE | two}
    for name, chunks in (("1F1B", 1), ("interleaved", 2)):
        calls[name] = PIPE | two | dict(schedule=str(folder / f"{name}.json"))
        (folder / f"{name}.json").write_text(json.dumps(pipeline.one_f_one_b(2, 8, chunks)))
    return launches(calls)(folder)


def parted(folder):
    """Train on one rank, with a reader's class, in a mesh, and with checkpoints that other numbers of ranks continue."""
    for file in ("my_sharding.py", "my_zero.py"):
        (folder / file).write_text(answers()[file])
    own, groups = str(folder / "my_sharding.py"), folder / "mesh.json"
    gradients, fully = (f"{folder / 'my_zero.py'}:{name}" for name in ("GradientsSharded", "FullySharded"))
    groups.write_text(json.dumps([[[0, 1], [2, 3]], [[0, 2], [1, 3]]]))
    calls = {
        "one": dict(workers=1, batch=GLOBAL, steps=4),
        "reader": dict(workers=2, batch=GLOBAL // 2, steps=4, update=own),
        "stage 3": dict(workers=2, batch=GLOBAL // 2, steps=4, stage=3),
        "stage 2": dict(workers=2, batch=GLOBAL // 2, steps=4, stage=2),
        "gradients": dict(workers=2, batch=GLOBAL // 2, steps=4, update=gradients),
        "fully": dict(workers=2, batch=GLOBAL // 2, steps=4, update=fully),
        "prefetch": dict(workers=2, batch=GLOBAL // 2, steps=4, update=fully, prefetch=True),
        "mesh": dict(workers=4, batch=GLOBAL // 2, steps=4, tensor=2, update=own),
        "other mesh": dict(workers=4, batch=GLOBAL // 2, steps=4, mesh=str(groups)),
    }
    for kind, how in (("stage", dict(stage=1)), ("own", dict(update=own))):
        for steps, ranks in ((1, 4), (2, 2), (4, 3)):
            calls[f"{kind}, {ranks} ranks"] = dict(workers=ranks, batch=GLOBAL // ranks, steps=steps, **how)
            calls[f"{kind}, {ranks} ranks"] |= dict(checkpoint_every=1, checkpoints=str(folder / kind))
    two = dict(workers=2, batch=GLOBAL // 2, stage=2)
    calls["two ranks"] = two | dict(steps=4)
    for steps in (2, 4):
        calls[f"two ranks, {steps} steps"] = two | dict(
            steps=steps, checkpoint_every=2, checkpoints=str(folder / "two")
        )
    return launches({name: PARTS | call for name, call in calls.items()})(folder)


OUTPUTS = {
    "parted": parted,
    "settings": launches(
        {name: {"script": "train_transformer.py", **SHAPE, **setting} for name, setting in SETTINGS.items()}
    ),
    "piped": piped,
}


@pytest.fixture(scope="module")
def results(output_of):
    """Return a function that gives the results of a group of runs by name, made once."""
    return lambda group: {name: run.result for name, run in launched(*output_of(group)).items()}


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting != "one"])
def test_a_model_that_is_split_trains_like_a_whole_one(results, setting):
    one, other = (results("settings")[name]["losses"] for name in ("one", setting))
    assert len(one) == 3 and one[0] > one[-1]
    assert other == pytest.approx(one, rel=2e-5)


@pytest.mark.parametrize("setting", SETTINGS)
def test_bytes_sent_and_kept_are_those_of_the_arithmetic(results, setting):
    result = results("settings")[setting]
    assert result["sent_bytes"] == SENT[setting]  # and what is kept differs by a quarter and more
    assert result["alive_bytes"]["weights and state"] == pytest.approx(KEPT[setting], rel=0.12)


@pytest.mark.parametrize(
    "setting, kept",
    [
        ("one", NETWORK.activations()),
        ("checkpoint", NETWORK.checkpoints),
        ("stage 0", NETWORK.activations() / 2),
        ("tensor", NETWORK.activations(2)),
        ("sequence", NETWORK.activations(2, sequence=True)),
    ],
)
def test_activations_are_those_of_the_arithmetic(results, setting, kept):
    input_ = BATCH * LENGTH * WIDTH  # of the last layer, and messages that Horovod has not freed yet
    found = results("settings")[setting]["alive_bytes"]["activations"] / 4
    assert 0.99 * kept <= found <= kept + 2.6 * input_


@pytest.mark.parametrize(
    "setting", ["reader", "mesh", "other mesh", "stage 2", "gradients", "stage 3", "fully", "prefetch"]
)
def test_a_readers_update_and_a_mesh_train_like_one_rank(results, setting):
    found = results("parted")
    assert found[setting]["losses"] == pytest.approx(found["one"]["losses"], rel=2e-5)
    assert len(found[setting]["losses"]) == 4


def test_a_readers_update_shards_the_state_and_sends_what_stage_1_does(results):
    one, reader, mesh = (results("parted")[name] for name in ("one", "reader", "mesh"))
    assert reader["state_bytes"] == one["state_bytes"] / 2 and reader["sent_bytes"] == one["state_bytes"] / 2
    assert one["state_bytes"] / 4 < mesh["state_bytes"] < reader["state_bytes"]  # embedding and output are not split


def test_a_prefetch_sends_what_stage_3_does_and_begins_before_the_layer_is_needed(results):
    found = results("parted")
    three, fully, prefetch = (found[name] for name in ("stage 3", "fully", "prefetch"))
    assert three["sent_bytes"] == fully["sent_bytes"] == prefetch["sent_bytes"]
    assert found["stage 2"]["sent_bytes"] == found["gradients"]["sent_bytes"] < three["sent_bytes"]
    assert found["gradients"]["state_bytes"] == fully["state_bytes"] == found["one"]["state_bytes"] / 2
    assert len(fully["timeline"]["communication"]) == len(prefetch["timeline"]["communication"]) > 10

    def at_once(run):
        spans = run["timeline"]
        return sum(a < d and c < b for a, b in spans["communication"] for c, d in spans["computation"])

    assert at_once(fully) == 0 < at_once(prefetch)


@pytest.mark.parametrize("kind", ["stage", "own"])
def test_other_numbers_of_ranks_continue_from_a_checkpoint(results, kind):
    found = results("parted")
    parts = [found[f"{kind}, {ranks} ranks"] for ranks in (4, 2, 3)]
    assert [part["resumed_at"] for part in parts] == [0, 1, 2]
    assert [loss for part in parts for loss in part["losses"]] == pytest.approx(found["one"]["losses"], rel=2e-5)


def test_the_same_number_of_ranks_continues_bit_by_bit(results):
    found = results("parted")
    parts = [found[f"two ranks, {steps} steps"] for steps in (2, 4)]
    assert [part["resumed_at"] for part in parts] == [0, 2]
    assert [loss for part in parts for loss in part["losses"]] == found["two ranks"]["losses"]


def test_a_pipeline_trains_like_one_stage_whatever_its_schedule(results):
    found = results("piped")
    for name, kept in (("one", [8]), ("GPipe", [8, 8]), ("1F1B", [2, 1]), ("interleaved", [2.5, 1.5])):
        assert found[name]["losses"] == pytest.approx(found["one"]["losses"], rel=2e-5)
        assert found[name]["kept_microbatches"] == kept
        assert np.shape(found[name]["busy_seconds"]) == (3, len(kept))
    assert found["one"]["losses"][0] > found["one"]["losses"][-1]


def loaded(name):
    """Return a script as a module, which runs nothing."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GPIPE = [[["F", 0], None, None, ["B", 0]], [None, ["F", 0], ["B", 0], None]]
FILES = {
    "no file": (None, "No such file"),
    "one row": (json.dumps(GPIPE[:1]), "it has 1 rows for 2 stages"),
    "stages in the wrong order": (json.dumps(GPIPE[::-1]), "stage 1 does F0 in cycle 0, before stage 0 has done F0"),
}


@pytest.mark.parametrize("text, sentence", FILES.values(), ids=FILES)
def test_what_is_no_schedule_is_refused(tmp_path, text, sentence):
    script, file = loaded("run_pipeline"), tmp_path / "schedule.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(
        InputError, match=f"schedule.json is not a schedule of 1 microbatches on 2 stages: .*{sentence}"
    ):
        script.read(file, 2, 1)
    file.write_text(json.dumps(GPIPE))
    assert script.read(file, 2, 1) == pipeline.gpipe(2, 1)


@pytest.mark.parametrize(
    "script, options, sentence",
    [
        ("train_transformer.py", dict(width=30, heads=3, tensor=2), "--heads 3 do not split over 2 ranks"),
        ("train_transformer.py", dict(length=33, tensor=2, sequence=True), "--length 33 do not split over 2 ranks"),
        ("run_pipeline.py", dict(width=32, depth=3), "--depth 3 does not split over 2 stages"),
    ],
)
def test_what_ranks_cannot_share_is_refused_in_one_line(script, options, sentence):
    with pytest.raises(RunFailed) as raised:
        launch(script, workers=2, threads=1, oversubscribe=True, **options)
    (line,) = [line for line in raised.value.run.logs(0).splitlines() if sentence in line]
    assert line.startswith(f"{script}: ") and "Traceback" not in raised.value.run.logs(0)
