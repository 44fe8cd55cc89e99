"""Predictions: overlap, the slowest rank, several ranks, and clusters."""

import importlib.util
import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from course import topology
from course.shared import cost
from course.topology.clusters import (
    FUSION_BYTES,
    LATE,
    LATENCY_S,
    MARGIN_POINTS,
    SHARE,
    SHOWN,
    cluster,
    scaling,
    server,
)
from course.topology.prediction import Prediction, expected_maximum, points, predict_step, report, slowest, table
from ddl.cli import main

FIT = cost.fit([(4, 1e-3), (4_000_000, 5e-3)], 2)
BOTH = cost.fit(
    [(size, 5e-4 + cost.ring(size, ranks, 1e-4, 1e-9)) for ranks in (2, 3) for size in (4, 10**6)], [2, 2, 3, 3]
)


def predicted(**facts):
    usual = {"ranks": 4, "batch": 256, "computation_s": 0.3, "communication_s": 0.1, "all_reduces": 1}
    return Prediction(**{**usual, "one_images_per_s": 64 / 0.3, **facts})


def run(name="run", **result):
    return SimpleNamespace(name=name, state="done", result=result)


def computing(ranks=2, each=32, part=None, times=((0.02, 0.03), (0.02, 0.04))):
    size = {"model": "cnn", "gradient_bytes": 1_000_000, "rank_steps_s": times}
    if ranks > 1:
        size |= {"rank_steps_s": [[9, 9]] * ranks, "apart": {"rank_steps_s": times}}
    elif part:
        size |= {"part": {"of": part, "rank_steps_s": [[0.01, 0.01]]}}
    batch = each * ranks
    return run(ranks=ranks, per_rank_batch=each, sizes=[size], global_batch=batch, images_per_s=batch / 0.05)


def test_as_much_communication_as_shows_makes_a_step_longer():
    one = predicted()
    assert one.seconds == one.no_overlap_s == pytest.approx(0.4) and one.full_overlap_s == 0.3
    assert one.images_per_s == pytest.approx(256 / 0.4)
    assert one.efficiency == pytest.approx(0.75)
    assert "4 ranks: 400.00 ms per step (full overlap 300.00, none 400.00)" in str(one)
    assert predicted(shown=0.5).seconds == pytest.approx(0.35)
    assert predicted(shown=0).seconds == predicted().full_overlap_s
    # Communication longer than the computation is always visible: between 0.5 and 0.8 s.
    assert predicted(communication_s=0.5, shown=0).seconds == 0.5
    assert predicted(communication_s=0.5, shown=0.5).seconds == pytest.approx(0.65)


def test_the_slowest_of_two_dice_and_of_what_is_drawn():
    dice = numpy.arange(1, 7)
    assert slowest([dice]) == pytest.approx(3.5)
    assert slowest([dice, dice]) == slowest([dice], 2) == pytest.approx(161 / 36)
    assert slowest([dice, dice], 1) == pytest.approx(3.5)
    assert slowest([dice], 1000) == pytest.approx(6)
    draw = numpy.random.default_rng(5)
    times = draw.lognormal(size=(5, 50)) + numpy.arange(5)[:, None] / 5
    drawn = numpy.stack([draw.choice(row, 100_000) for row in times]).max(axis=0).mean()
    assert slowest(times) == pytest.approx(drawn, rel=0.02)


def test_expected_maximum_matches_closed_form():
    drawn = numpy.random.default_rng(0).normal(size=(20_000, 256)).max(axis=1).mean()
    assert expected_maximum(256) == pytest.approx(drawn, abs=0.025)
    assert expected_maximum(1) == 0
    assert expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-3)
    assert expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-3)


def test_points_come_from_all_reduces_of_a_run():
    made = [
        {"operation": operation, "size_bytes": size, "seconds": {"median": size / 1e6}}
        for operation in ("all_reduce", "broadcast")
        for size in (4, 8)
    ]
    assert points(run(points=made)) == [(4, 4e-6), (8, 8e-6)]
    failed = SimpleNamespace(name="x", state="failed", result=None)
    for wrong, message in ((run(points=made[2:]), "no all-reduce times"), (failed, "no result: it is failed")):
        with pytest.raises(ValueError, match=message):
            points(wrong)
    for wrong, message in ((run(ranks=2), 'with model="cnn"'), (computing(), "2 ranks need a fit")):
        with pytest.raises(ValueError, match=message):
            predict_step(wrong)


def test_a_step_is_the_slowest_in_company_and_one_message():
    one = predict_step(computing(), FIT)
    assert one.computation_s == pytest.approx((0.02 + 0.03 + 2 * 0.04) / 4)
    assert one.waiting_s == pytest.approx(one.computation_s - 0.0275)
    assert one.communication_s == pytest.approx(FIT(1_000_012))
    assert one.seconds == one.no_overlap_s and one.ranks == 2 and one.batch == 64
    assert one.one_images_per_s == pytest.approx(32 / 0.0275)
    against = predict_step(computing(), FIT, one=computing(1, 64))
    assert against.one_images_per_s == pytest.approx(64 / 0.05)


def test_more_ranks_keep_each_ones_batch_and_wait_longer():
    steps = [predict_step(computing(), BOTH, ranks) for ranks in (1, 2, 4, 8)]
    assert [one.batch for one in steps] == [32, 64, 128, 256]
    assert steps[0].communication_s == steps[0].waiting_s == 0
    assert all(a.computation_s < b.computation_s for a, b in itertools.pairwise(steps))
    assert steps[3].computation_s < 0.04  # the slowest that was ever seen
    with pytest.raises(ValueError, match="all points have 2 ranks.*another number"):
        predict_step(computing(), FIT, 4)


def test_ranks_that_share_cores_take_turns():
    two, four = (predict_step(computing(), BOTH, ranks, cores=2) for ranks in (2, 4))
    assert two == predict_step(computing(), BOTH, 2)
    assert four.computation_s == pytest.approx(2 * two.computation_s)
    assert four.waiting_s == pytest.approx(2 * two.waiting_s) and four.batch == 2 * two.batch
    assert four.communication_s == predict_step(computing(), BOTH, 4).communication_s > two.communication_s
    assert four.one_images_per_s == two.one_images_per_s  # a rank with a core of its own
    # Measurements with three ranks on two cores already include taking turns.
    three = predict_step(computing(3), BOTH, 4, cores=2)
    assert three.computation_s == pytest.approx(4 / 3 * predict_step(computing(3), BOTH, 2).computation_s)


def test_one_rank_alone_did_a_part():
    one = predict_step(computing(1, 64, part=2), FIT)
    assert one.ranks == 2 and one.batch == 64 and one.computation_s == pytest.approx(0.01)
    whole = predict_step(computing(1, 64, part=2, times=[[0.02, 0.02]]), ranks=1)
    assert whole.ranks == 1 and whole.batch == 64 and whole.seconds == pytest.approx(0.02)


def test_a_report_shows_parts_overlap_and_error():
    training = run(ranks=2, global_batch=64, images_per_s=64 / 0.04)
    one = predict_step(computing(), FIT)
    rows = report({"alone": predict_step(computing(1, 64, part=2), FIT), "company": one}, training)
    assert rows["error"][1] == pytest.approx(one.seconds / 0.04 - 1)
    assert rows["measured_ms"].tolist() == pytest.approx([40, 40])
    parts = rows.loc[1, ["computation_ms", "waiting_ms", "communication_ms"]].sum()
    assert parts == pytest.approx(rows["predicted_ms"][1])
    assert report(one, training)["name"].tolist() == ["prediction"]
    for wrong in ({"global_batch": 128}, {"ranks": 4}):
        with pytest.raises(ValueError, match="has {} {}, and ".format(*next(iter(wrong.items())))):
            report(one, run(**{**training.result, **wrong}))


def test_a_server_is_its_links_as_far_as_programs_reach_them():
    dgx = server("dgx-1")
    assert dgx.inside.bandwidth_gb_per_s == pytest.approx(6 * 20)  # six NVLinks, 20 of 25 GB/s
    assert dgx.between.bandwidth_gb_per_s == pytest.approx(4 * 12)
    assert dgx.inside.alpha_s == LATENCY_S["NVLink"]
    plain = server("pcie-4gpu")
    assert plain.inside.alpha_s == LATENCY_S["PCIe"]
    slowest_way = topology.load("pcie-4gpu").bandwidth("GPU1", "GPU2")
    assert plain.inside.bandwidth_gb_per_s == pytest.approx(SHARE["PCIe"] * slowest_way)


def test_a_cluster_counts_messages_and_takes_the_faster_way():
    one = cluster("dgx-1", 4, "vgg16", 64, images_per_s=200)
    size_bytes = 4 * 138_357_544
    assert one.all_reduces == math.ceil(size_bytes / FUSION_BYTES) == 5
    assert one.ranks == 32 and one.batch == 2048
    assert one.computation_s - one.waiting_s == pytest.approx(0.32)
    assert one.waiting_s == pytest.approx(0.32 * LATE * expected_maximum(32)) and one.shown == SHOWN
    box = server("dgx-1")
    ways = [5 * way(size_bytes / 5, 8, 4, box.inside, box.between) for way in (cost.ring_over_nodes, cost.hierarchical)]
    assert one.communication_s == pytest.approx(min(ways))
    ring = cluster("dgx-1", 4, "vgg16", 64, images_per_s=200, algorithm="ring", all_reduces=5)
    assert ring.communication_s == pytest.approx(ways[0])
    for facts, message in (({"algorithm": "star"}, "best, ring, hierarchical"), ({"late": math.nan}, "late must")):
        with pytest.raises(ValueError, match=message):
            cluster("dgx-1", 4, "vgg16", images_per_s=200, **facts)


def test_speeds_are_those_of_the_gpu_at_the_nearest_batch():
    assert cluster("big-basin", 1, "resnet50", 32).one_images_per_s == 195
    assert cluster("big-basin", 1, "resnet50", 128).one_images_per_s == 219
    with pytest.raises(ValueError, match="resnet50 on H100.*is unknown.*P100, V100, A100"):
        cluster("dgx-h100", 1, "resnet50")


def test_scaling_goes_over_gpus_and_then_over_servers():
    steps = scaling("dgx-a100", 600, "resnet50", 64)
    ranks = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4800]
    assert [one.ranks for one in steps] == ranks
    assert all(a.efficiency >= b.efficiency for a, b in itertools.pairwise(steps))
    assert steps[0].efficiency == pytest.approx(1)
    assert steps[-1] == cluster("dgx-a100", 600, "resnet50", 64)
    shown = table(steps, "Mine.")
    assert shown["efficiency_no_overlap"].le(shown["efficiency"]).all()
    assert "Mine. Predicted, not measured" in repr(shown) and "low" not in shown


def test_the_terms_of_a_table_add_up_and_its_interval_is_as_wide_as_said():
    shown = table(scaling("dgx-1", 4, "vgg16", images_per_s=200), margin_points=5)
    assert (shown["computation_ms"] + shown["waiting_ms"] + shown["shown_ms"]).tolist() == pytest.approx(
        shown["step_ms"].tolist()
    )
    assert shown.loc[0, ["low", "efficiency", "high"]].tolist() == [1, 1, 1]  # by definition
    assert (shown["efficiency"] - shown["low"])[1:].tolist() == pytest.approx([0.05] * (len(shown) - 1))
    assert shown["high"].tolist() == pytest.approx((shown["efficiency"] + 0.05).clip(upper=1).tolist())
    assert "lay within 5 points" in repr(shown)


HOST = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \t{0}\t0-15\t0
GPU1\t{0}\t X \t0-15\t0
"""


def predict(**changed):
    options = {"--topology": "dgx-a100", "--nodes": 2, "--parameters": 1000, "--images-per-s": 50, **changed}
    given = [(option, str(value)) for option, value in options.items() if value is not None]
    return main(["predict", *itertools.chain(*given)])


RESNET = {"--parameters": None, "--images-per-s": None, "--model": "resnet50"}


def test_the_command_predicts_and_draws(capsys, tmp_path):
    figure = tmp_path / "scaling.png"
    assert predict(**RESNET, **{"--nodes": 128, "--batch": 64, "--figure": figure}) == 0
    printed = capsys.readouterr().out
    assert "1024" in printed and "resnet50 on dgx-a100, 64 samples per GPU" in printed
    assert f"lay within {MARGIN_POINTS:g} points of the predicted one" in printed
    assert figure.read_bytes().startswith(b"\x89PNG")
    asked = {"--parameters": 10**8, "--gradient-bytes": 2, "--baseline": 8, "--fusion-threshold-mb": 100}
    assert predict(**asked) == 0
    printed = capsys.readouterr().out
    assert "100,000,000 parameters on dgx-a100" in printed and "gradients of 2 bytes, efficiency against 8" in printed
    row = next(line.split() for line in printed.splitlines() if line.split()[:1] == ["16"])
    assert row[2] == "2"  # messages of 100 MiB at most


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"--images-per-s": "nan"}, "images_per_s=nan: a positive number"),
        ({"--parameters": -5}, "parameters=-5: an integer >= 1"),
        ({"--baseline": 9}, "baseline=9: whole servers of dgx-a100 have a multiple of 8"),
        ({"--gradient-bytes": 3}, "gradient_bytes=3: 1, 2, 4 or 8"),
        ({"--network": "eight"}, "network must be cards × Gbit/s"),
        ({"--model": "resnet50"}, "model='resnet50' and parameters=1000: give only one"),
        (RESNET | {"--topology": "dgx-h100"}, "give images/s"),
    ],
)
def test_invalid_prediction_is_one_line(capsys, changed, expected):
    assert predict(**changed) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.startswith("ddl: ") and expected in printed.err
    assert printed.err.count("\n") == 1


def test_fusion_threshold_matches_installed_horovod():
    launch = Path(importlib.util.find_spec("horovod").origin).parent / "runner" / "launch.py"
    option = launch.read_text().partition("'--fusion-threshold-mb'")[2].partition("add_argument")[0]
    assert re.search(r"default: (\d+)", option)[1] == str(FUSION_BYTES // 2**20)


def test_half_precision_fusion_and_baseline_are_asked_for():
    def vgg16(nodes=4, **asked):
        return cluster("dgx-1", nodes, "vgg16", 64, images_per_s=200, **asked)

    whole, half = vgg16(), vgg16(gradient_bytes=2)
    assert (whole.all_reduces, half.all_reduces) == (5, 3)
    assert half.communication_s < 0.6 * whole.communication_s
    fused = vgg16(fusion_bytes=2**30)
    assert fused.all_reduces == 1 and fused.seconds == pytest.approx(fused.no_overlap_s)
    against, eight = vgg16(baseline=8), vgg16(nodes=1)
    assert against.efficiency == pytest.approx(whole.efficiency / eight.efficiency)
    assert against.efficiency_no_overlap == pytest.approx(whole.efficiency_no_overlap / eight.efficiency_no_overlap)
    assert against.seconds == whole.seconds
    rows = scaling("dgx-1", 4, "vgg16", 64, images_per_s=200, baseline=8)
    assert rows[-1] == against and rows[3].efficiency == 1 and rows[3].ranks == 8


@pytest.mark.parametrize(
    ("kind", "inside", "assumed"),
    [("NV12", 12 * 20, "each NVLink: 25 GB/s"), ("SYS", 12, "the path between GPUs: 15.75 GB/s")],
)
def test_a_matrix_is_predicted_with_a_network_beside_it(tmp_path, capsys, kind, inside, assumed):
    file = tmp_path / "topo.txt"
    file.write_text(HOST.format(kind))
    with pytest.raises(ValueError, match="--network 8x200"):
        server(file)
    host = server(file, "4x100")
    assert host.between.bandwidth_gb_per_s == pytest.approx(SHARE["network"] * 50)
    assert host.inside.bandwidth_gb_per_s == pytest.approx(inside, rel=1e-3) and assumed in host.assumed
    given = server(file, topology.graph.Network("mine", 1, 100), link_gb_per_s=10)
    assert given.between.bandwidth_gb_per_s == pytest.approx(12) and not given.assumed
    assert given.inside.bandwidth_gb_per_s < 10
    assert predict(**{"--topology": file, "--network": "4x100"}) == 0
    assert assumed in capsys.readouterr().out
    # A recorded server keeps its own network, unless another is said.
    assert server("dgx-1", "25").between.bandwidth_gb_per_s == pytest.approx(3)
