"""The numbers of docs/gpu.md match the records."""

import json
from functools import partial

import pytest

from helpers import ROOT

RECORD, AGAIN = (
    json.loads((ROOT / f"results/reference/gpu-check{which}.json").read_text()) for which in ("", "-again")
)
STEPS = RECORD["steps"]
PAGE = (ROOT / "docs/gpu.md").read_text()


@pytest.mark.parametrize("record", [RECORD, AGAIN], ids=("first", "again"))
def test_what_the_page_says_works_did(record):
    steps = record["steps"]
    worked = [name for name, step in steps.items() if step["status"] == 0]
    assert {"one rank: report", "two ranks sharing: report", "torch_ddp: one rank", "Horovod: one rank"} <= set(worked)
    assert {f"torch_sharded {method}: two ranks sharing, Gloo" for method in ("ddp", "fsdp")} <= set(worked)
    assert record["horovod"]["compiled"] == "yes"
    assert "oversubscribe" in steps["two ranks, one GPU: refused"]["output"]
    assert "Duplicate GPU detected" in steps["torch_ddp: two ranks sharing, NCCL"]["output"]


def figures(entry):
    """Yield the numbers in an entry of a record, but not how long it took."""
    for name, value in entry.items():
        if isinstance(value, dict):
            yield from figures(value)
        elif isinstance(value, (int, float)) and name not in ("seconds", "status"):
            yield value


def test_the_second_run_differs_as_the_page_says():
    def ratios(name):
        numbers = (figures(record["steps"][name]) for record in (AGAIN, RECORD))
        return [now / then for now, then in zip(*numbers, strict=True) if now != then]

    for name in ("memory", "matmul", "overlap", "transformer", "compiled"):
        assert all(0.94 < ratio < 1.06 for ratio in ratios(name))
    for name, words in (("roofline", "products by tokens reached"), ("images", "images/s")):
        assert f"{words} {100 * min(ratios(name)):.0f} to {100 * max(ratios(name)):.0f} %" in " ".join(PAGE.split())


@pytest.mark.parametrize(
    "value, text",
    [
        (STEPS["memory"]["float32"]["held_bytes_per_weight"], "16.1 bytes"),
        (STEPS["memory"]["autocast"]["held_bytes_per_weight"], "16.0 bytes"),
        (STEPS["memory"]["bfloat16 with float32 copy"]["peak_bytes_per_weight"], "is 21.5 "),
        (STEPS["bandwidth"]["host_to_device_pinned_gb_s"], "53.5 GB/s"),
        (STEPS["bandwidth"]["host_to_device_pageable_gb_s"], "7.0 GB/s"),
        (STEPS["matmul"]["bfloat16_tflop_s"], "737 TFLOP/s"),
        (100 * STEPS["transformer"]["mfu_of_989_tflop_s"], "MFU 30 %"),
        (100 * STEPS["compiled"]["mfu_of_989_tflop_s"], "MFU 37 %"),
        (STEPS["roofline"]["tflop_s_by_tokens"]["256"], "485 |"),
        (STEPS["overlap"]["ms_per_layer_by_tokens"]["16384"]["prefetch"], "3.48 |"),
        (STEPS["overlap"]["ms_per_layer_by_tokens"]["65536"]["one after the other"], "14.21 |"),
    ],
)
def test_each_number_is_the_records(value, text):
    number = next(word for word in text.split() if word[0].isdigit())
    decimals = len(number.partition(".")[2])
    assert f"{value:.{decimals}f}" == number
    assert text in PAGE


TENSORFLOW = json.loads((ROOT / "results/reference/gpu-tensorflow.json").read_text())
WORDS = " ".join(PAGE.split())


def images_per_s(stack, model="cnn", way="channels_last", batch=4096, precision="float32", tf32=True, where="gpu"):
    """Return the images/s of one row of the record, as the page rounds them."""
    asked = {"model": model, "way": way, "batch": batch, "precision": precision, "tf32": tf32, "augment": True}
    rows = [row for row in TENSORFLOW[stack] if asked.items() <= row.items() and row.get("where", where) == where]
    (row,) = rows
    return f"{round(row['images_per_s'], -3):,}"


def test_images_per_s_of_tensorflow_and_pytorch():
    ours, theirs = partial(images_per_s, "tensorflow"), partial(images_per_s, "pytorch")
    bfloat16 = {"precision": "bfloat16"}
    for *cells, label in (
        (ours(way="as it is"), ours(way="as it is", **bfloat16), ours("resnet", "as it is"), "as it was then"),
        (ours(way="images on the processor"), "images and augmentation on the processor"),
        (theirs(), theirs(**bfloat16), theirs("resnet"), "channels last, TF32"),
        (theirs(way="eager"), "", theirs("resnet", "eager"), "default layout"),
        (theirs(way="compiled"), "PyTorch, `torch.compile`"),
        (theirs(tf32=False), "float32 without TF32"),
        (theirs(where="cpu"), "PyTorch, channels last, augmentation on the processor"),
    ):
        (row,) = [line for line in PAGE.splitlines() if line.startswith("|") and label in line]
        assert [cell.strip() for cell in row.split("|")[2:5]] == cells + [""] * (3 - len(cells))
    assert f"{theirs(batch=512)} (channels last) to {theirs(batch=512, **bfloat16)} (bfloat16)" in WORDS


def test_first_use_of_a_gpu_and_two_runs_with_one_seed():
    first, later = (TENSORFLOW["first_use"]["by_compute_cache"][cache] for cache in ("empty", "filled"))
    for value, form in (
        (lambda run: run["time_to_first_step_s"], "{:.1f} s"),
        (lambda run: run["start_s"]["first step"], "{:.1f} s"),
        (lambda run: run["seconds"], "{:.1f} s"),
        (lambda run: run["compute_cache_bytes"] / 1e6, "{:.1f} MB"),
    ):
        assert f"| {form.format(value(first))} | {form.format(value(later))} |" in PAGE
    assert f"loss {first['loss']:.6f} and {later['loss']:.6f}" in WORDS
    assert f"accuracy {first['test_accuracy']:.1%} and {later['test_accuracy']:.1%}".replace("%", " %") in WORDS
    assert f"`ddl run train_cifar.py` reached {round(later['images_per_s'], -2):,} images/s" in WORDS
    slow = [row["first_s"] for row in TENSORFLOW["tensorflow"] if row["first_s"] > 10]
    assert "the first step took {:.1f} s with bfloat16 and {:.1f} s with the residual".format(*slow) in WORDS
    assert {"sm_75", "compute_80"} == set(TENSORFLOW["cuda_compute_capabilities"][-2:])
