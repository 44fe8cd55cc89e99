"""The numbers of docs/gpu.md match the record."""

import json

import pytest

from helpers import ROOT

RECORD = json.loads((ROOT / "results/reference/gpu-check.json").read_text())
STEPS = RECORD["steps"]
PAGE = (ROOT / "docs/gpu.md").read_text()


def test_what_the_page_says_works_did():
    worked = [name for name, step in STEPS.items() if step["status"] == 0]
    assert {"one rank: report", "two ranks sharing: report", "torch_ddp: one rank", "Horovod: one rank"} <= set(worked)
    assert {f"torch_sharded {method}: two ranks sharing, Gloo" for method in ("ddp", "fsdp")} <= set(worked)
    assert RECORD["horovod"]["compiled"] == "yes"
    assert "oversubscribe" in STEPS["two ranks, one GPU: refused"]["output"]
    assert "Duplicate GPU detected" in STEPS["torch_ddp: two ranks sharing, NCCL"]["output"]


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
