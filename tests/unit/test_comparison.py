"""The comparison table: configurations, seeds and verdicts."""

import math
from types import SimpleNamespace

import pandas
import pytest
from scipy.stats import ttest_1samp

from course.shared.recorded import Recorded
from ddl.comparison import compare
from helpers import finished

HARDWARE = {"host": "vm", "cpu": "Some CPU", "cores": 2, "gpus": []}


def result(name, accuracy, *, seed=0, steps=80, epochs=8, batch=1024, **fields):
    """A result whose held-out accuracy grows linearly to `accuracy`."""
    history = [
        {
            "step": steps * epoch // epochs,
            "epoch": float(epoch),
            "samples": steps * epoch // epochs * batch,
            "seconds": 2.0 * epoch,
            "accuracy": accuracy * epoch / epochs + 0.1,
            "test_accuracy": accuracy * epoch / epochs,
        }
        for epoch in range(1, epochs + 1)
    ]
    return {
        "name": name,
        "seed": seed,
        "learning_rate": 0.02,  # that applied; the one asked for stands in the configuration
        "data": {"name": "synthetic", "form": "generated", "train_samples": 10_000},
        "hardware": HARDWARE,
        "ranks": 2,
        "threads_per_rank": 1,
        "global_batch": batch,
        "steps": steps,
        "epochs": float(epochs),
        "samples": steps * batch,
        "images_per_s": 1000.0,
        "train_seconds": 2.0 * epochs,
        "accuracy": accuracy + 0.1,
        "test_accuracy": accuracy,
        "history": history,
    } | fields


def run(name, accuracy, **fields):
    return finished(result(name, accuracy, **fields))


def configuration(name, *accuracies, **fields):
    return [run(name, accuracy, seed=seed, **fields) for seed, accuracy in enumerate(accuracies)]


def failed(name):
    facts = {"name": name, "recorded": False, "restarts": (), "state": "failed", "job": {"workers": 2, "threads": 1}}
    return SimpleNamespace(**facts, result=None, history=pandas.DataFrame())


def by_configuration(table):
    return {row["configuration"]: row for row in table.to_dict("records")}


def test_seeds_of_one_name_make_one_row_in_order_of_appearance():
    table = compare([run("b", 0.5), run("a", 0.40), run("b", 0.6), run("a", 0.44)])
    assert (list(table["configuration"]), list(table["seeds"])) == (["b", "a"], [2, 2])
    assert table["test_accuracy"].tolist() == pytest.approx([0.55, 0.42])
    # Sample standard deviation of two: |difference| / sqrt(2).
    assert table["test_accuracy_sd"].tolist() == pytest.approx([0.1 / 2**0.5, 0.04 / 2**0.5])


def test_without_an_arm_to_compare_with_nothing_is_judged():
    table = compare([*configuration("a", 0.50, 0.60, 0.55), *configuration("b", 0.52, 0.64, 0.58)])
    assert list(table["verdict"]) == ["", "best"]
    # Differences of 2, 4 and 3 points: standard deviation 1, t of two degrees of freedom 4.3027.
    row = table.iloc[0]
    assert (row["difference_points"], row["pairs"]) == (pytest.approx(-3), 3)
    assert row["low_points"] == pytest.approx(-3 - 4.3027 / 3**0.5, abs=1e-3)
    assert "−3.0\u00a0±\u00a02.5" in str(table) and "within the margin" not in str(table).lower()
    assert math.isnan(table["difference_points"][1])


def test_differences_are_paired_by_seed():
    reference = configuration("small", 0.50, 0.60, 0.55)  # a spread of 5 points, which pairs do not feel
    others = (
        configuration("same", 0.501, 0.599, 0.551)
        + configuration("up", 0.53, 0.63, 0.58)
        + configuration("down", 0.46, 0.57, 0.51)
    )
    unsettled = configuration("wide", 0.52, 0.58, 0.55)
    table = compare([*reference, *reversed(others), *unsettled], against="small", margin=1.0)
    verdicts = {row["configuration"]: row["verdict"] for row in table.to_dict("records")}
    assert verdicts == {
        "small": "",
        "same": "within the margin",
        "up": "better",
        "down": "worse",
        "wide": "not decided",  # the means are equal, the interval reaches beyond the margin
    }
    assert "against small" in table.readable()
    assert "+3.0\u00a0±\u00a00.0, better" in str(table)
    # Of four comparisons the smallest p counts four times, of three each once.
    p = {row["configuration"]: row["p_holm"] for row in table.to_dict("records")}
    down = ttest_1samp([-4, -3, -4], 0).pvalue
    assert (p["up"], p["down"], p["wide"]) == (pytest.approx(0, abs=1e-9), pytest.approx(3 * down), 1)
    assert "< 0.001" in str(table)
    narrow = compare([*reference, *others], against="small", margin=0.1)
    assert by_configuration(narrow)["same"]["verdict"] == "not decided"
    assert narrow["p_holm"].isna().all()


def test_one_common_seed_decides_nothing():
    single = compare([run("a", 0.5), run("b", 0.6)])
    assert "−10.0, one seed" in str(single) and math.isnan(single["low_points"][0])
    table = compare(
        [*configuration("a", 0.5, 0.5), run("b", 0.6, seed=7), run("b", 0.6, seed=8)], against="a", margin=99
    )
    row = by_configuration(table)["b"]
    assert (row["difference_points"], row["pairs"], row["verdict"]) == (pytest.approx(10), 0, "not decided")
    assert "+10.0, no seed in common, not decided" in str(table)


def test_throughput_is_compared_on_equal_hardware_only():
    runs = [run("first", 0.5, images_per_s=800.0), run("same", 0.5, images_per_s=1000.0), run("one rank", 0.5, ranks=1)]
    table = compare([*runs, run("elsewhere", 0.5, hardware=HARDWARE | {"gpus": ["H100"]})])
    assert table["ratio"].tolist() == pytest.approx([1, 1.25, math.nan, math.nan], nan_ok=True)


def test_failed_and_diverged_runs_stay_in_the_table():
    hit = run("hit", 0.5)
    hit.restarts = [SimpleNamespace(repeated=15, lost_s=12.25), SimpleNamespace(repeated=None, lost_s=None)]
    other = run("other", 0.5)  # a script without our records
    other.result, other.history = {"name": "other"}, pandas.DataFrame()
    table = compare([run("a", 0.5), failed("a"), failed("b"), run("c", 0.1, diverged=True), hit, other])
    rows = by_configuration(table)
    assert rows["other"]["seeds"] == 0
    assert rows["a"]["note"] == "1 of 2 failed, without a result"
    assert (rows["b"]["seeds"], rows["b"]["ranks"]) == (0, 2)
    assert rows["c"]["note"] == "1 of 1 diverged"
    assert rows["hit"]["note"].startswith("restarted 2 times: 15 steps")
    assert "failed" in table._repr_html_()


def test_recorded_runs_have_rows_of_their_own():
    table = compare([run("a", 0.5), Recorded(result("a", 0.6)), Recorded(result("a", 0.7))])
    assert list(table["configuration"]) == ["a", "a (recorded)"]
    assert list(table["recorded"]) == [False, True]
    alone = compare([Recorded(result("a", 0.6)), Recorded(result("b", 0.7))])
    assert list(alone["configuration"]) == ["a", "b"] and "Recorded runs, compared" in alone._repr_html_()
    assert "Recorded runs" not in table._repr_html_()
    assert list(table["verdict"]) == ["", ""]


def other(name, args, duration_s=2.0, result=None, **own):
    """A run of a script that knows no held-out accuracy."""
    progress = SimpleNamespace(own=own, loss=None, elapsed_s=duration_s, state="done", step=60)
    job = {"workers": 2, "args": args}
    return SimpleNamespace(name=name, id=name, recorded=False, job=job, result=result, progress=lambda: progress)


def test_runs_of_other_scripts_are_compared_by_arguments_and_all_their_figures():
    table = compare(
        [
            other("a", ["train", "--lr", "0.1", "--fast"], val_mse=0.5, result={"bleu": 27.5, "name": "a"}),
            other("b", ["train", "--lr=0.2"], duration_s=3.5, val_mse=0.25),
        ]
    )
    shown = table.readable()
    assert list(shown) == ["run", "id", "state", "--lr", "--fast", "workers", "duration, s", "steps", "val_mse", "bleu"]
    assert shown["--lr"].tolist() == ["0.1", "0.2"] and shown["--fast"].tolist() == ["yes", "–"]
    assert shown["duration, s"].tolist() == ["2.0", "3.5"]
    assert (shown["val_mse"].tolist(), shown["bleu"].tolist()) == (["0.5", "0.25"], ["27.5", "–"])
