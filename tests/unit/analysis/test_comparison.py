"""The comparison table: arms, seeds, verdicts, equal epochs and equal steps."""

import math
from types import SimpleNamespace

import pandas
import pytest

from ddl.analysis.comparison import compare
from ddl.records.reference import Recorded

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
    made = result(name, accuracy, **fields)
    return SimpleNamespace(
        name=name, recorded=False, state="done", result=made, history=pandas.DataFrame(made["history"])
    )


def failed(name):
    return SimpleNamespace(
        name=name,
        recorded=False,
        state="failed",
        result=None,
        history=pandas.DataFrame(),
        job={"workers": 2, "threads": 1},
    )


def by_arm(table):
    return {row["arm"]: row for row in table.to_dict("records")}


def test_seeds_of_one_name_make_one_row_in_order_of_appearance():
    table = compare([run("b", 0.5), run("a", 0.40), run("b", 0.6), run("a", 0.44)])
    assert list(table["arm"]) == ["b", "a"]
    assert list(table["seeds"]) == [2, 2]
    assert table["test_accuracy"].tolist() == pytest.approx([0.55, 0.42])
    # Sample standard deviation of two: |difference| / sqrt(2).
    assert table["test_accuracy_sd"].tolist() == pytest.approx([0.1 / 2**0.5, 0.04 / 2**0.5])


def test_one_seed_has_no_spread():
    table = compare([run("a", 0.5)])
    assert math.isnan(table["test_accuracy_sd"][0])
    assert "±" not in str(table).splitlines()[1] and "(n=1)" in str(table)


def test_a_difference_within_the_pooled_spread_is_none():
    # Standard deviations 0.0707 each, so pooled 0.0707; the means differ by 0.05.
    close = compare([run("a", 0.5), run("a", 0.6), run("b", 0.55), run("b", 0.65)])
    assert list(close["verdict"]) == ["no difference", "best"]
    # The same means with a pooled spread of 0.0141.
    far = compare([run("a", 0.54), run("a", 0.56), run("b", 0.59), run("b", 0.61)])
    assert list(far["verdict"]) == ["−5.0", "best"]


def test_one_seed_settles_nothing():
    assert list(compare([run("a", 0.5), run("b", 0.6)])["verdict"]) == ["−10.0, one seed", "best"]


def test_arms_on_other_data_are_not_ranked_together():
    other = {"name": "cifar10", "form": "official", "train_samples": 10_000}
    table = by_arm(compare([run("a", 0.5), run("b", 0.6), run("c", 0.9, data=other)]))
    assert (table["b"]["verdict"], table["c"]["verdict"]) == ("best", "")


def test_equal_steps_uses_the_last_evaluation_within_them():
    table = compare([run("slow", 0.8, steps=80), run("fast", 0.8, steps=800)], at="steps", steps=85)
    rows = by_arm(table)
    assert rows["slow"]["steps"] == 80
    assert rows["slow"]["test_accuracy"] == pytest.approx(0.8)
    assert math.isnan(rows["fast"]["steps"])
    assert rows["fast"]["note"] == "1 of 1 without an evaluation that early"


def test_equal_steps_by_default_is_what_all_reached():
    rows = by_arm(compare([run("slow", 0.8, steps=80), run("fast", 0.8, steps=160)], at="steps"))
    assert (rows["slow"]["steps"], rows["fast"]["steps"]) == (80, 80)
    assert rows["fast"]["test_accuracy"] == pytest.approx(0.4)


def test_equal_epochs_uses_the_shorter_training():
    rows = by_arm(compare([run("short", 0.8, epochs=4, steps=40), run("long", 0.8)], at="epochs"))
    assert (rows["short"]["epochs"], rows["long"]["epochs"]) == (4, 4)
    assert rows["long"]["test_accuracy"] == pytest.approx(0.4)
    assert rows["long"]["train_accuracy"] == pytest.approx(0.5)


def test_throughput_is_compared_on_equal_hardware_only():
    rows = by_arm(
        compare(
            [
                run("first", 0.5, images_per_s=800.0),
                run("same", 0.5, images_per_s=1000.0),
                run("one rank", 0.5, ranks=1),
                run("elsewhere", 0.5, hardware=HARDWARE | {"gpus": ["H100"]}),
            ]
        )
    )
    assert rows["same"]["ratio"] == 1.25
    assert math.isnan(rows["one rank"]["ratio"])
    assert math.isnan(rows["elsewhere"]["ratio"])


def test_failed_and_diverged_runs_stay_in_the_table():
    table = compare([run("a", 0.5), failed("a"), failed("b"), run("c", 0.1, diverged=True)])
    rows = by_arm(table)
    assert rows["a"]["note"] == "1 of 2 failed, without a result"
    assert (rows["b"]["seeds"], rows["b"]["ranks"]) == (0, 2)
    assert rows["c"]["note"] == "1 of 1 diverged"
    assert "failed" in table._repr_html_()


def test_rows_of_another_precision_are_marked():
    old, new = run("old", 0.5), run("new", 0.5, precision="float32")  # results did not always say it
    table = compare([old, new, run("16 bits", 0.5, precision="bfloat16"), failed("lost")])
    assert table["precision"].tolist()[:3] == ["float32", "float32", "bfloat16"]
    assert table["note"].tolist()[:3] == ["", "", "in bfloat16, the first row in float32"]
    assert "first row" not in table["note"][3]
    assert "16 bits (in bfloat16, the first row in float32)" in str(table)
    assert "precision" in table.readable() and "precision" not in compare([old, new]).readable()
    mixed = compare([old, run("old", 0.5, precision="bfloat16")])
    assert mixed["precision"][0] == "float32 / bfloat16"


def test_what_all_rows_share_is_said_once():
    table = compare([run("a", 0.5), run("b", 0.6)])
    assert "hardware" in table and "hardware" not in table.readable()
    assert str(table).count("2 cores, Some CPU") == 1
    elsewhere = compare([run("a", 0.5), run("b", 0.6, hardware=HARDWARE | {"gpus": ["H100"]})])
    assert list(elsewhere.readable()["hardware"]) == ["2 cores, Some CPU", "1 × H100"]


def test_recorded_runs_have_rows_of_their_own():
    table = compare([run("a", 0.5), Recorded(result("a", 0.6)), Recorded(result("a", 0.7))])
    assert list(table["arm"]) == ["a", "a (recorded)"]
    assert list(table["recorded"]) == [False, True]
    assert list(table["verdict"]) == ["", ""]


def test_an_arm_that_is_not_one_arm_shows_it():
    table = compare([run("a", 0.5), run("a", 0.5, learning_rate=0.4)])
    assert table["learning_rate"][0] == "0.02 / 0.4"


def test_names_are_escaped():
    assert "<script>" not in compare([run("<script>", 0.5)])._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(dict(runs=[]), "no runs"), (dict(runs=[run("a", 0.5)], at="hours"), "'epochs', at 'steps'")],
)
def test_what_cannot_be_compared_is_said(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(**arguments)


def test_a_script_without_our_records_still_has_a_row():
    other = run("other", 0.5)
    other.result, other.history = {"name": "other"}, pandas.DataFrame()
    assert compare([other])["seeds"][0] == 0
