"""Lesson 6's answers that are launched: right ones in several styles, and which checks each mistake loses.

Each is tried on real ranks, in marking's sandbox; all launches share one process with TensorFlow in it.
"""

import re
from functools import partial

import pytest
from test_launched import changed

from course.grader.limits import Limits
from course.sharding import buckets, resharded, sharded
from helpers import answers

pytestmark = pytest.mark.slow("lessons/6*", "source_code/course/sharding/*")

ZERO = {
    "same_weights": sharded.same_weights,
    **{kind: lambda t, kind=kind: sharded.same_weights(t, kind) for kind in ("averaged", "gathered", "padded")},
    "state_shared": sharded.state_shared,
    "few_bytes": sharded.few_bytes,
}
CHECKS = {
    "sharded": ZERO,
    **dict.fromkeys(("gradients", "fully"), ZERO | {"little_kept": sharded.little_kept}),
    "tensor": {
        **{name: lambda t, name=name: sharded.equal(t, name) for name in ("y", "of_input", "of_first")},
        "one_sum_each_way": sharded.one_sum_each_way,
    },
    "checkpoint": {
        "same_arrays": lambda t: resharded.same_arrays(t, 2),
        "written_in_shards": resharded.written_in_shards,
        "falls_back": lambda t: [resharded.falls_back(t, how) for how in resharded.TEARS],
    },
    "ddp": {
        **{
            f"{kind} {check.__name__}": lambda t, check=check, kind=kind: check(t, kind)
            for check in (buckets.few_messages, buckets.means)
            for kind in ("Flat", "Bucketed")
        },
        "overlapped": buckets.overlapped,
    },
}
TRIALS = {"tensor": sharded.tensor_trial, "checkpoint": resharded.saved, "ddp": buckets.trial}

FILES = {
    "sharded": "my_sharding.py",
    "gradients": "my_zero.py",
    "fully": "my_zero.py",
    "tensor": "my_tensor.py",
    "checkpoint": "my_checkpoint.py",
    "ddp": "my_ddp.py",
}
ANSWERS = answers()
MODEL = {kind: ANSWERS[file] for kind, file in FILES.items()}

# The kind, and what stands in the model answer -> what stands there instead.
RIGHT = {
    "sharded: the model answer": ("sharded", []),
    "sharded: the world splits, and a sum is divided": (
        "sharded",
        [("np.pad(gradient, (0, missing)).reshape(world.size, -1)", "world.split(gradient)"),
         ("np.mean(world.all_to_all(shards), axis=0)", "sum(world.all_to_all(shards)) / world.size"),
         ("np.pad(self.weights, (0, missing))", "world.split(self.weights)"),
         ("weights.reshape(world.size, -1)[world.rank]", "weights[world.rank]")],
    ),
    "sharded: with __slots__": (
        "sharded", [("    def __init__", "    __slots__ = ('weights', 'world', 'shard', 'optimizer')\n\n    def __init__")]
    ),
    "gradients: the model answer": ("gradients", []),
    "gradients: updated in place": (
        "gradients",
        [("dict(layers), {}", "{name: weights.copy() for name, weights in layers.items()}, {}"),
         ("            self.weights[name] = self.world.all_gather(own).ravel()[:self.n[name]]\n        self.gradients = {}\n",
          "            self.weights[name][:] = self.world.all_gather(own).ravel()[:self.n[name]]\n"
          "        self.gradients.clear()\n")],
    ),
    "fully: the model answer": ("fully", []),
    "tensor: the model answer": ("tensor", []),
    "tensor: a mask, and other products": (
        "tensor",
        [("(x, a, b, hidden)\n", "dict(x=x, a=a, b=b, hidden=hidden, mask=hidden > 0)\n"),
         ("x, a, b, hidden = saved", "x, a, b, hidden, mask = saved.values()"),
         ("(back @ b.T) * (hidden > 0)", "np.where(mask, np.einsum('no,ho->nh', back, b), 0)"),
         ("return world.all_sum(to_hidden @ a.T), ", "of_x = world.all_sum(np.inner(to_hidden, a))\n    return of_x, ")],
    ),
}  # fmt: skip

MEAN = "np.mean(world.all_to_all(shards), axis=0)"
OWN = "        own = own + self.optimizer.change(mean)\n"
GATHER = "        self.weights = world.all_gather(own).ravel()[:n]\n"
REDUCED = (
    "received = self.world.all_to_all(self.world.split(gradient))\n"
    "        self.gradients[name] = np.mean(received, axis=0)\n"
)
LATER = "gradient = np.mean(self.world.all_to_all(self.world.split(gradient)), 0)\n            "
GATHERED = "            self.weights[name] = self.world.all_gather(own).ravel()[:self.n[name]]\n"
FULL_GATHER = "self.world.all_gather(self.weights[name]).ravel()[:self.n[name]]"
# The kind, the changes, what the mistake loses, and what a sentence says.
WRONG = {
    "a sum for the mean": ("sharded", [("np.mean", "np.sum")], "same_weights averaged", "sum of all ranks' gradients"),
    "its own gradient only": (
        "sharded", [(MEAN, "shards[world.rank]")], "same_weights averaged", "its own rank only"
    ),
    "moments of the whole vector": (
        "sharded",
        [("optimizer(self.shard)", "optimizer(self.shard * world.size)"),
         ("self.optimizer.change(mean)", "self.optimizer.change(np.tile(mean, world.size))[:self.shard]")],
        "state_shared",
        "has 36 numbers of optimizer state; its shard of the 35 weights is 18",
    ),
    "what is left over stays as it is": (
        "sharded",
        [("-(-len(weights) // world.size)", "len(weights) // world.size"),
         ("np.pad(gradient, (0, missing))", "gradient[: self.shard * world.size]"),
         ("np.pad(self.weights, (0, missing))", "self.weights[: self.shard * world.size]"),
         ("world.all_gather(own).ravel()[:n]", "np.append(world.all_gather(own).ravel(), self.weights[n + missing:])")],
        "same_weights padded",
        "left over when the ranks do not divide them",
    ),
    "weights padded in front": (
        "sharded", [("np.pad(self.weights, (0, missing))", "np.pad(self.weights, (missing, 0))")],
        "same_weights padded", "shifted",
    ),
    "gathered before the update": (
        "sharded", [(OWN + GATHER, GATHER + OWN)], "same_weights gathered", "never change"
    ),
    "the update stays on its rank": (
        "sharded",
        [(OWN + GATHER, GATHER + "        self.weights = self.weights.copy()\n        first = world.rank * self.shard\n"
          "        change = self.optimizer.change(mean)\n"
          "        self.weights[first : first + self.shard] += change[: len(self.weights) - first]\n")],
        "same_weights gathered",
        "a step behind",
    ),
    "two gathers": ("sharded", [(GATHER, 2 * GATHER)], "few_bytes", "rank 0 sent 54 numbers to others in a step"),
    "gradients: whole gradients until the update": (
        "gradients",
        [(REDUCED, "self.gradients[name] = gradient\n"), ("            own = self.world", f"            {LATER}own = self.world")],
        "little_kept",
        "all weights and its shards of gradients are 54",
    ),
    "gradients: an all-reduce, and a shard of it": (
        "gradients",
        [(REDUCED, "mean = self.world.all_sum(gradient) / self.world.size\n"
          "        self.gradients[name] = self.world.split(mean)[self.world.rank].copy()\n")],
        "few_bytes",
        "one exchange and one gather",
    ),
    "fully: a view keeps the whole": ("fully", [(".copy()", "")], "little_kept", "kept 54 numbers in its arrays at once"),
    "fully: whole gradients are kept": (
        "fully",
        [(REDUCED, "self.gradients[name] = gradient\n"),
         ("            self.weights[name] +=", f"            {LATER}self.weights[name] +=")],
        "little_kept",
        "its shards of weights and gradients are 36",
    ),
    "fully: gathered once for both directions": (
        "fully",
        [(f"return {FULL_GATHER}",
          f"self.whole = getattr(self, 'whole', {{}})\n        if name not in self.whole:\n            "
          f"self.whole[name] = {FULL_GATHER}\n        return self.whole[name]"),
         ("            self.weights[name] += self.optimizers[name].change(gradient)\n        self.gradients = {}\n",
          "            self.weights[name] += self.optimizers[name].change(gradient)\n        self.gradients = self.whole = {}\n")],
        "little_kept",
        "kept 72 numbers",
    ),
    "tensor: no sum forward": (
        "tensor", [("world.all_sum(hidden @ b)", "hidden @ b")], "y", "without the sum over ranks"
    ),
    "tensor: a sum of the result's gradient": (
        "tensor", [("(back @ b.T)", "(world.all_sum(back) @ b.T)")],
        "of_input of_first one_sum_each_way", "sent 40 numbers forward or backward",
    ),
    "tensor: no sum of the input's gradient": (
        "tensor", [("world.all_sum(to_hidden @ a.T)", "to_hidden @ a.T")], "of_input", "without the sum over ranks"
    ),
    "tensor: no mask": ("tensor", [(" * (hidden > 0)", "")], "of_input of_first", "of_first is not the layer"),
}  # fmt: skip


NONSENSE = {
    "it defines something else": ("sharded", "Shard = 1", "does not define Sharded"),
    "it never ends": ("sharded", "while True: pass", "did not end within 8 s"),
    "weights of another shape": (
        "sharded",
        changed(MODEL["sharded"], [("world.all_gather(own).ravel()[:n]", "world.all_gather(own)")]),
        r"raised ValueError|has the shape",
    ),
    "no number": ("sharded", changed(MODEL["sharded"], [("ravel()[:n]", "ravel()[:n] * np.nan")]), "is not finite"),
    "no matrices": ("tensor", "def forward(*given): pass\nbackward = forward", "raised TypeError"),
}


OWN_STYLE = {
    "fully: a class for each layer": (
        "fully",
        """
from dataclasses import dataclass
import numpy as np
@dataclass
class Layer:
    shard: np.ndarray
    size: int
    optimizer: object
    gradient: object = None
class FullySharded:
    def __init__(self, layers, world, optimizer):
        self.world, self.layers = world, {}
        for name, weights in layers.items():
            shard = np.array(world.split(weights)[world.rank])
            self.layers[name] = Layer(shard, weights.size, optimizer(shard.size))
    def gather(self, name):
        layer = self.layers[name]
        return np.concatenate(self.world.all_gather(layer.shard))[: layer.size]
    def reduce(self, name, gradient):
        self.layers[name].gradient = self.world.all_to_all(self.world.split(gradient)).sum(0) / self.world.size
    def update(self):
        for layer in self.layers.values():
            layer.shard = layer.shard + layer.optimizer.change(layer.gradient)
            layer.gradient = None
""",
    ),
    "gradients: one optimizer for all layers": (
        "gradients",
        """
import numpy as np
class GradientsSharded:
    def __init__(self, layers, world, optimizer):
        self.world, self.all = world, {name: np.array(weights) for name, weights in layers.items()}
        self.shards = {name: np.zeros(-(-len(weights) // world.size)) for name, weights in layers.items()}
        self.optimizer = optimizer(sum(map(len, self.shards.values())))
    def gather(self, name):
        return self.all[name]
    def reduce(self, name, gradient):
        self.shards[name] = sum(self.world.all_to_all(self.world.split(gradient / self.world.size)))
    def update(self):
        change = self.optimizer.change(np.concatenate([self.shards[name] for name in self.all]))
        for name, weights in self.all.items():
            mine, change = change[: len(self.shards[name])], change[len(self.shards[name]) :]
            weights += np.concatenate(self.world.all_gather(mine))[: len(weights)]
""",
    ),
    "tensor: TensorFlow's tape on each shard": (
        "tensor",
        """
import numpy as np
import tensorflow as tf
def forward(x, a, b, world):
    x, a, b = map(tf.constant, (x, a, b))
    with tf.GradientTape() as tape:
        tape.watch([x, a, b])
        shard = tf.nn.relu(x @ a) @ b
    return world.all_sum(shard.numpy()), (tape, shard, x, a, b)
def backward(saved, back, world):
    tape, shard, x, a, b = saved
    of_x, of_a, of_b = tape.gradient(shard, [x, a, b], tf.constant(back, shard.dtype))
    return world.all_sum(of_x.numpy()), of_a, of_b
""",
    ),
}


@pytest.fixture
def lost_points(lost):
    """Return a function that tries an answer, and gives the sentence of each check that it does not pass."""

    def check(kind, script, size=2, layers=sharded.ODD):
        trial = TRIALS.get(kind) or partial(sharded.trial, kind=kind, layers=layers)
        return lost(script, partial(trial, "my.py", size, seed=5), CHECKS[kind])

    return check


@pytest.mark.parametrize("kind, changes", RIGHT.values(), ids=RIGHT)
def test_right_answers_in_several_styles_keep_all_points(lost_points, kind, changes):
    size = 3 if kind in ("gradients", "fully") else 4
    assert lost_points(kind, changed(MODEL[kind], changes), size) == {}


@pytest.mark.parametrize("kind, script", OWN_STYLE.values(), ids=OWN_STYLE)
def test_right_answers_written_in_another_style_keep_all_points(lost_points, kind, script):
    assert lost_points(kind, script, 3 if kind != "tensor" else 2) == {}


@pytest.mark.parametrize("kind", ["sharded", "gradients", "fully", "tensor"])
def test_one_rank_is_the_whole(lost_points, kind):
    assert lost_points(kind, MODEL[kind], 1) == {}


@pytest.mark.parametrize("kind, changes, loses, sentence", WRONG.values(), ids=WRONG)
def test_a_mistake_loses_these_checks_and_no_others(lost_points, kind, changes, loses, sentence):
    found = lost_points(kind, changed(MODEL[kind], changes))
    assert set(found) == set(loses.split()), found
    assert any(re.search(sentence, text) for text in found.values()), found


@pytest.mark.parametrize("mistake", ["what is left over stays as it is", "weights padded in front"])
def test_padding_mistake_shows_only_with_remainder(lost_points, mistake):
    assert lost_points("sharded", changed(MODEL["sharded"], WRONG[mistake][1]), layers=sharded.EVEN) == {}


@pytest.mark.parametrize("kind, script, sentence", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused_with_a_sentence(ranks, lost_points, monkeypatch, kind, script, sentence):
    monkeypatch.setattr(ranks, "_limits", Limits(launch_s=8))
    try:
        texts = list(lost_points(kind, script).values())
    except AssertionError as error:
        texts = [str(error)]
    assert any(re.search(sentence, text) for text in texts), texts


# A part of the model answer -> its replacement, and the check that fails with its sentence.
JOIN = "np.concatenate([file[name] for file in files])[:n]"
SAVED = {
    "the model answer": ([], {}),
    "whole files, read one by one": (
        [("np.savez(new, **shards)\n    new.replace(folder / f\"{step}-{world.rank}of{world.size}.npz\")",
          "for name, shard in shards.items():\n        np.save(folder / f\"{name} {step} {world.rank}.npy\", shard)"),
         ("            files = [np.load(folder / f\"{step}-{rank}of{size}.npz\")\n                     for rank in range(size)]\n", ""),
         (JOIN, "np.concatenate([np.load(folder / f\"{name} {step} {rank}.npy\") for rank in range(about[\"ranks\"])])[:n]")],
        {},
    ),
    "no barrier": ([("    world.barrier()\n", "")], {"written_in_shards": "had saved its shard"}),
    "the padding stays": ([(")[:n]", ")")], {"same_arrays": "cut off the padding"}),
    "its own shard as it was": (
        [(JOIN, "files[world.rank % len(files)][name]"), ("world.split(whole)[world.rank]", "whole")],
        {"same_arrays": "the shard of the rank with its number"},
    ),
    "steps compared as text": (
        [("sorted((int(path.stem) for", "sorted((path.stem for"), ("return step, shards", "return int(step), shards")],
        {"same_arrays": "compare steps as numbers"},
    ),
    "one name for all steps": (
        [("f\"{step}-{world.rank}of{world.size}.npz\"", "f\"{world.rank}.npz\""),
         ("f\"{step}-{rank}of{size}.npz\"", "f\"{rank}.npz\"")],
        {"falls_back": "overwrites the first"},
    ),
    "a torn checkpoint is an error": ([("except Exception:", "except ZeroDivisionError:")], {"falls_back": "raised"}),
    "a torn checkpoint is the end": ([("            continue", "            return None")], {"falls_back": "gave nothing"}),
    "all shards on each rank": (
        [("np.savez(new", "shards = {name: world.split(world.all_gather(shard))[world.rank] for name, shard in "
          "shards.items()}\n    np.savez(new")],
        {"written_in_shards": "each rank writes its own"},
    ),
}  # fmt: skip


BUCKETS = {
    "the model answer": ([], {}),
    "buckets with offsets": (
        [("means |= zip(gradients, np.split(message.result(), ends[:-1]))",
          "mean, start = message.result(), 0\n            for name, gradient in gradients.items():\n"
          "                means[name], start = mean[start : start + len(gradient)], start + len(gradient)")],
        {},
    ),
    "sums": ([("message.result()", "message.result() * self.world.size")], {"Bucketed means": "sums, not means"}),
    "one rank's own": (
        [("mean.result(), ends", "np.concatenate([*self.waiting.values()]), ends")], {"Flat means": "this rank's own"}
    ),
    "names in another order": (
        [("zip(self.waiting, np.split", "zip(reversed(self.waiting), np.split")], {"Flat means": "are not the means"}
    ),
    "flat is naive": (
        [("        mean = self.world.start(np.concatenate([*self.waiting.values()]))\n", ""),
         ("        ends = np.cumsum([len(each) for each in self.waiting.values()])\n"
          "        return dict(zip(self.waiting, np.split(mean.result(), ends[:-1])))", "        return super().finish()")],
        {"Flat few_messages": "one message has all"},
    ),
    "each gradient is a bucket": ([(">= self.bucket", ">= 0")], {"Bucketed few_messages": "a bucket is full at 12"}),
    "a bucket waits for one more": (
        [(">= self.bucket", "> self.bucket + 10")], {"Bucketed few_messages": "not [13, 30, 9]"}
    ),
    "everything in finish": (
        [("            self.send()\n\n    ", "            pass\n\n    ")],
        {"Bucketed few_messages": "not [13, 30, 9]", "overlapped": "begins 1 messages in"},
    ),
    "it waits at once": (
        [("self.messages.append((self.waiting, message))", "message.result()\n        self.messages.append((self.waiting, message))")],
        {"overlapped": "wait in `finish`"},
    ),
    "what is left is forgotten": (
        [("        if self.waiting:\n            self.send()\n        means", "        means")], {"raises": "KeyError"}
    ),
}  # fmt: skip


OTHERS = {
    f"{kind}: {name}": (kind, *row)
    for kind, rows in (("checkpoint", SAVED), ("ddp", BUCKETS))
    for name, row in rows.items()
}


@pytest.mark.parametrize("kind, changes, loses", OTHERS.values(), ids=OTHERS)
def test_checkpoints_and_ddp_lose_these_checks_and_no_others(lost_points, kind, changes, loses):
    try:
        found = lost_points(kind, changed(MODEL[kind], changes), 4 if kind == "checkpoint" else 2)
    except AssertionError as error:
        found = {"raises": str(error)}
    assert set(found) == set(loses), found
    for name, sentence in loses.items():
        assert sentence in found[name], found
