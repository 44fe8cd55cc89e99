"""A training script in little: it writes the records of one, and sleeps instead of learning."""

import argparse
import math
import os
import time

from ddl.records.recorder import Recorder

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--fail-at-epoch", type=int, default=None)
parser.add_argument("--step-s", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--extras", action="store_true", help="logs for TensorBoard")
options = parser.parse_args()


def diverge(loss):
    raise ValueError(f"the loss is {loss} <b>not markup</b>")


STEPS, BATCH = 10, 64
rank = int(os.environ["HOROVOD_RANK"])
world = int(os.environ["HOROVOD_SIZE"])
record = Recorder() if rank == 0 else None
if options.extras:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
data = {"name": "synthetic", "form": "generated", "train_samples": STEPS * BATCH}
if record:
    steps = STEPS * options.epochs
    record.event("start", world=world, steps=steps, epochs=options.epochs, data=data)
if record and options.extras:
    writer = EventFileWriter(str(record.folder.tensorboard))
    writer.add_event(Event(step=1, summary=Summary(value=[Summary.Value(tag="tried loss", simple_value=0.5)])))
    writer.close()
history = []
began = time.time()
for step in range(1, STEPS * options.epochs + 1):
    time.sleep(options.step_s)
    epoch = step / STEPS
    if rank == 1 and options.fail_at_epoch is not None and epoch >= options.fail_at_epoch + 0.5:
        diverge(math.nan)
    now = {
        "step": step,
        "epoch": epoch,
        "samples": step * BATCH,
        "images_per_s": BATCH / options.step_s,
        "loss": 2.3 * math.exp(-epoch / 5),
        "learning_rate": 0.1,
    }
    if record:
        record.event("step", **now)
    if step % STEPS == 0:
        accuracy = 0.1 + 0.6 * (1 - math.exp(-epoch / 3)) + 0.01 * options.seed
        seen = {"seconds": time.time() - began, "accuracy": accuracy + 0.05}
        history.append(now | seen | {"test_loss": now["loss"] + 0.1, "test_accuracy": accuracy})
        if record:
            record.event("evaluation", **history[-1])
if record:
    end = history[-1]
    record.result(
        {key: end[key] for key in ("loss", "accuracy", "test_loss", "test_accuracy", "samples")}
        | {"steps": end["step"], "epochs": end["epoch"], "train_seconds": end["seconds"]}
        | {"images_per_s": end["images_per_s"], "data": data, "history": history}
        | {"ranks": world, "threads_per_rank": 1, "global_batch": BATCH, "seed": options.seed}
        | {"config": {"learning_rate": 0.1}, "hardware": {"cpu": "any", "cores": 2, "gpus": []}}
    )
