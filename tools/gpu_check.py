"""Measure the course's TensorFlow and PyTorch stacks on a machine with one GPU, in under five minutes.

    .venv/bin/python tools/gpu_check.py RECORD.json             # what nobody has measured yet comes first
    .venv/bin/python tools/gpu_check.py RECORD.json lesson two  # only steps whose names begin so

Each step is a process with a time limit. The record is rewritten after each, and lists what was left out for lack of
time, TensorFlow or PyTorch (TORCH_PYTHON may name another Python). Without a GPU, steps do less, on processor cores.
"""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "source_code"
TAIL = 800  # characters of an output's beginning and end that the record keeps
GPU = bool(subprocess.run("nvidia-smi -L", shell=True, capture_output=True).stdout)
BATCHES, PRECISIONS = ((4096, 512), ("tf32", "bfloat16")) if GPU else ((64,), ("float32",))
BATCH, STEPS = (512, 60) if GPU else (64, 6)
DATA = ("--data-set", "synthetic", "--train-samples", 20 * BATCH, "--test-samples", 500, "--steps", STEPS)
LOTS = 12  # batches of images on which a part trains
FACTS = (
    "images_per_s precision time_to_first_step_s start_s loss test_accuracy replicas ranks device peak_bytes".split()
)
CHECK_S, GRACE_S, LEAST_S = 290, 5, 8


def launch(name, workers, script, *arguments, options=(), limit_s=40, needs="tensorflow"):
    """Return the step that launches a script, by default with fewer GPUs than workers where there is one."""
    run = ("-m", "ddl.cli", "run", "--workers", workers, "--timeout-s", limit_s, *options)
    return name, needs, limit_s + GRACE_S, (*run, SOURCE / script, *arguments)


def cifar(name, workers, *arguments, **how):
    fixed = (*DATA, "--recipe", "batch_norm", "--global-batch", BATCH)  # an option in `arguments` overrides them
    return launch(name, workers, "train_cifar.py", *fixed, *arguments, **how)


def strategy(name, workers, script, *arguments, kind="horovod", needs="tensorflow"):
    """Return the step that launches a strategy, with `kind` of cluster; its ranks may share a GPU."""
    options = ("--oversubscribe", "--cluster", kind)
    return launch(name, workers, f"strategies/{script}.py", *DATA, *arguments, options=options, needs=needs)


def speeds():
    """Yield launches of this project's training and PyTorch's in turns, of the same network, batch and precision."""
    for batch, precision, model in itertools.product(BATCHES, PRECISIONS, ("cnn", "resnet")):
        name, samples = f"speed: {model}, {precision}, batch {batch}", max(10_000, LOTS * batch)
        steps = samples // batch + (STEPS if GPU else 4)  # the first epoch is warm-up
        ours = ("--model", model, "--train-samples", samples, "--steps", steps, "--global-batch", batch)
        yield cifar(f"{name}, this project", 1, *ours, "--precision", precision)
        theirs = ("../benchmarks/pytorch.py", "--train", model, precision, "channels_last", batch, steps)
        yield launch(f"{name}, PyTorch", 1, *theirs, options=("--cluster", "torchrun"), needs="torch")


def phases():
    """Return phases that follow one another, each of lists of steps that run side by side."""
    start = [
        ("doctor", "tensorflow", 30, ("-m", "ddl.cli", "doctor")),
        *(cifar(f"first step, compute cache {how}", 1, limit_s=110) for how in ("as found", "filled")),
        cifar("two ranks sharing", 2, options=("--oversubscribe",)),
    ]
    strategies = [
        strategy("horovod_loop: two ranks", 2, "horovod_loop"),
        *(strategy(f"mirrored: replicas {count}", 1, "mirrored", "--replicas", count) for count in (1, 2)),
        *(strategy(f"{kind}: two ranks", 2, kind, kind=kind) for kind in ("multi_worker", "parameter_server")),
        *(cifar(f"recipe {recipe}", 1, "--recipe", recipe) for recipe in ("lamb", "lars")),
        launch("train_transformer: one rank", 1, "course/sharding/scripts/train_transformer.py", "--steps", 4),
    ]
    for name, ranks, *how in (("one rank", 1), ("NCCL", 2), ("Gloo", 2, "--backend", "gloo")):
        strategies.append(strategy(f"torch_ddp: {name}", ranks, "torch_ddp", *how, kind="torchrun", needs="torch"))
    lessons = [
        (f"lesson {name}", "tensorflow", 90, ("tools/lessons.py", "run", name)) for name in ("Start_Here", *"346")
    ]
    parts = [(name, "tensorflow", 100, (__file__, "--part", name)) for name in PARTS]
    return [start], [strategies, lessons, parts], [list(speeds())]


class Check:
    """The record of a check, and the time and the Pythons that its steps have."""

    def __init__(self, record, limit_s=CHECK_S):
        from ddl.records.machine import hardware, versions

        self.path, self.until = Path(record).resolve(), time.monotonic() + limit_s
        self.record = {"date": time.strftime("%Y-%m-%d"), "hardware": hardware() | {"host": ""}, "versions": versions()}
        self.record |= {"computes_on": "GPU" if GPU else "processor cores", "steps": {}, "left_out": {}}
        self.lock, self.pythons = threading.Lock(), {}
        for library in ("tensorflow", "torch"):
            python = os.environ.get(f"{library.upper()}_PYTHON", sys.executable)
            if not subprocess.run([python, "-c", f"import {library}"], capture_output=True).returncode:
                self.pythons[library] = python

    def run(self, name, needs, limit_s, arguments):
        """Run a step within its limit and the check's, and record it."""
        began = time.monotonic()
        if self.until - began < LEAST_S or needs not in self.pythons:
            self.write("left_out", name, f"no {'time left' if needs in self.pythons else needs}")
            return
        paths = os.pathsep.join(map(str, (SOURCE, ROOT / "benchmarks")))
        limit = ("timeout", f"--kill-after={GRACE_S}", min(limit_s, self.until - began))
        command = [*map(str, (*limit, self.pythons[needs], *arguments))]
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "output").open("w+", errors="replace") as output:
            env = {**os.environ, "DDL_RUNS_DIR": folder, "DDL_VIEW": "plain", "PYTHONPATH": paths}
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env=env)
            output.seek(0)
            text = output.read()
            found = {} if done.returncode else numbers(folder, text)
        status = "timeout" if done.returncode in (124, 137) else done.returncode
        entry = {"status": status, "seconds": round(time.monotonic() - began, 1)}
        self.write("steps", name, entry | (found or {"output": plain(text)}))

    def write(self, where, name, entry):
        with self.lock:
            self.record[where][name] = entry
            self.path.write_text(json.dumps(self.record, indent=1) + "\n")
            print(f"{name}: {entry if where == 'left_out' else (entry['status'] or 'ok')}", flush=True)


def plain(text):
    """Return the ends of an output, without this machine's folders and a terminal's codes."""
    text = re.sub(rf"\x1b\[[0-9;?]*[a-zA-Z]|{ROOT}/|{sys.prefix}/|{Path.home()}/", "", text)
    return text if len(text) < 2 * TAIL else f"{text[:TAIL]}\n[…]\n{text[-TAIL:]}"


def numbers(folder, text):
    """Return a step's numbers: of a launch's result.json, or the JSON in a part's last line."""
    for path in Path(folder).glob("*/result.json"):
        found = json.loads(path.read_text())
        return {name: found[name] for name in FACTS if name in found}
    last = text.strip().rpartition("\n")[2]
    return json.loads(last) if last.startswith("{") else {}


def main(check, only):
    for phase in phases():
        with ThreadPoolExecutor(len(phase) if GPU else 1) as pool:
            list(pool.map(lambda lane: [check.run(*step) for step in lane if step[0].startswith(only)], phase))


def training(model="cnn", batch=BATCH):
    """Return the step of train_cifar.py on random images, in an object that also has its weights."""
    import horovod.tensorflow as hvd
    import numpy as np

    from course.multi_gpu.scripts.step_times import Whole
    from course.training.gpu import pin_gpu

    if not hvd.is_initialized():
        hvd.init()
        pin_gpu()
    draw = np.random.default_rng(0).integers
    pictures = draw(256, size=(LOTS * batch, 32, 32, 3), dtype=np.uint8), draw(10, size=LOTS * batch, dtype=np.int32)
    return Whole(SimpleNamespace(model=model, global_batch=batch, seed=0), pictures, batch)


def measured(model, batch, steps):
    """Return the seconds of a training's first step, milliseconds of another, its last loss, and its weights' hash."""
    import numpy as np
    import tensorflow as tf

    whole, first, clock = training(model, batch), np.arange(batch, dtype=np.int32), [time.perf_counter()]
    with tf.device("CPU:0"):
        told = tf.constant(0.05), tf.constant(0.0)
    for number in range(5 + steps):
        figures = whole.train_step(first + number % LOTS * batch, number, *told)
        if number in (0, 4, 4 + steps):
            loss = float(figures[0])  # waits for the GPU
            clock.append(time.perf_counter())
    weights = hashlib.sha256(b"".join(each.numpy().tobytes() for each in whole.weights)).hexdigest()[:12]
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] if GPU else None
    times = {"first_s": clock[1] - clock[0], "ms": 1e3 * (clock[3] - clock[2]) / steps}
    return {**times, "loss": loss, "weights": weights, "peak_bytes_so_far": peak}


def placement():
    """Fail if a GPU has no kernel for an operation of the training step whose result has several dimensions."""
    from tensorflow.python.framework import kernels

    def on_gpu(operation):
        for kernel in kernels.get_registered_kernels_for_op(operation.type).kernel:
            allowed = {each.name: each.allowed_values.list.type for each in kernel.constraint}
            fits = all(operation.node_def.attr[name].type in types for name, types in allowed.items())
            if fits and kernel.device_type in ("GPU", "DEFAULT"):
                return not {"x", "input", "tensor", "params", "values"} & set(kernel.host_memory_arg)
        return "CPU" in operation.device  # on purpose

    graph = training().train_step.get_concrete_function().graph
    large = [each for each in graph.get_operations() if any((out.shape.rank or 0) > 1 for out in each.outputs)]
    here = sorted(f"{each.type} {each.name}" for each in large if not on_gpu(each))
    if GPU and here:
        sys.exit(f"left to the processor: {here}")
    return {"operations": len(large), "left to the processor": len(here)}


def logical():
    """Sum over two logical devices with each reduction of MirroredStrategy; what it takes by default."""
    import tensorflow as tf

    device = (tf.config.list_physical_devices("GPU") or tf.config.list_physical_devices("CPU"))[0]
    two = [tf.config.LogicalDeviceConfiguration(memory_limit=4096 if GPU else None)] * 2
    tf.config.set_logical_device_configuration(device, two)
    names, found = [f"{device.device_type}:{number}" for number in (0, 1)], {}
    for kind in ("", "HierarchicalCopyAllReduce", "ReductionToOneDevice", "NcclAllReduce"):
        mirrored = tf.distribute.MirroredStrategy(names, getattr(tf.distribute, kind)() if kind else None)
        reduction = type(mirrored.extended._get_cross_device_ops(tf.zeros(1))).__name__
        try:
            every = mirrored.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones(1)))
            result = {"sum": float(mirrored.experimental_local_results(every)[0][0])}
        except tf.errors.OpError as error:  # such as what NCCL says
            result = {"error": error.message[:TAIL]}
        found[kind or "default"] = {"class": reduction, **result}
    return found


def variants():
    """Time steps of both networks: as is, in bfloat16, with convolutions left channels last, with XLA, and again."""
    import tensorflow as tf

    found, ways = {"batch": BATCHES[0]}, ("as it is", "the same again", "bfloat16", "channels last", "XLA")
    ways = (*itertools.product(("cnn", "resnet"), ways), ("cnn", "deterministic"), ("cnn", "deterministic, again"))
    for model, way in ways:
        tf.config.optimizer.set_experimental_options({"layout_optimizer": way != "channels last"})
        tf.config.optimizer.set_jit("autoclustering" if way == "XLA" else False)
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16" if way == "bfloat16" else "float32")
        if way.startswith("deterministic"):
            tf.keras.utils.set_random_seed(0)
            tf.config.experimental.enable_op_determinism()
        found[f"{model}, {way}"] = measured(model, BATCHES[0], 25 if GPU else 3)
    return found


PARTS = {each.__name__: each for each in (placement, logical, variants)}

if __name__ == "__main__":
    sys.path[:0] = [str(SOURCE)]
    if sys.argv[1] == "--part":
        print(json.dumps(PARTS[sys.argv[2]]()))
    else:
        main(Check(sys.argv[1]), tuple(sys.argv[2:]) or "")
