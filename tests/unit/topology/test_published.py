"""What others published: the figures as recorded, what is fitted to them, and that none is predicted from itself."""

import tomllib
from dataclasses import replace

import numpy
import pytest

from course.topology import published
from course.topology.clusters import LATE, MARGIN_POINTS, cluster
from course.topology.prediction import REFERENCE, expected_maximum

RECORDED = tomllib.loads((REFERENCE / "published-scaling.toml").read_text())


@pytest.fixture(scope="module")
def table():
    return published.compared()


@pytest.fixture(scope="module")
def scores(table):
    return published.by_publisher(table).set_index("publisher")


def test_every_figure_has_a_source_and_every_source_a_figure(table):
    assert {point["source"] for point in RECORDED["point"]} == set(RECORDED["source"])
    assert set(table["study"]) == set(RECORDED["source"]) and len(table) == len(RECORDED["point"])
    assert all(len(source["text"]) > 40 and source["text"] in repr(table) for source in RECORDED["source"].values())


@pytest.mark.parametrize(
    ("study", "network", "gpus", "through", "percent"),
    [
        ("horovod-16", "VGG-16", 16, "", 100 * 1787.4 / 16 / 130.9),
        ("horovod-16", "VGG-16", 16, "TCP", 100 * 1308.7 / 16 / 130.9),
        ("horovod-512", "VGG-16", 512, "", 68),
        ("goyal", "ResNet-50", 256, "", 90),
        ("tensorflow-p100", "AlexNet", 8, "", 100 * 17822 / 8 / 2987),
        ("tensorflow-aws", "ResNet-152", 64, "parameter server", 100 * 981 / 64 / 19.4),
        ("playbook", "a language model of 1.34 billion weights", 256, "", 100 * 15700.38 / 40149.94),
    ],
)
def test_an_efficiency_is_that_of_the_published_speeds(table, study, network, gpus, through, percent):
    rows = table.query("study == @study and network == @network and gpus == @gpus and through == @through")
    assert rows["published_percent"].iloc[0] == pytest.approx(percent)


def test_of_several_programs_the_median_counts(table):
    spread = published.programs()
    assert spread["programs"].tolist() == [8, 8, 8, 6, 6, 6]
    counted = table.query("study == 'dlperf'")["published_percent"]
    assert spread["median_percent"].tolist() == pytest.approx(counted.tolist())
    first = next(point for point in RECORDED["point"] if point["source"] == "dlperf")
    shares = 100 * numpy.array(first["all"]) / numpy.array(first["one"]) / 8
    assert spread["apart_points"][0] == pytest.approx(abs(shares - numpy.median(shares)).mean())


def test_a_step_that_is_late_is_what_the_cluster_predicts():
    point = next(point for point in published.figures() if point.source == "goyal")
    options = {"batch": 32, "images_per_s": 195, "algorithm": "hierarchical", "all_reduces": 161, "baseline": 8}
    same = cluster("big-basin", 32, "resnet50", late=0.05, **options)
    assert point.predicted(0.05).efficiency == pytest.approx(same.efficiency)
    assert point.predicted(0.05).waiting_s == pytest.approx(0.05 * expected_maximum(256) * 32 / 195)


def test_a_fit_recovers_what_figures_were_made_of():
    for late in (0.0, 0.02, 0.1):
        made = [replace(point, percent=100 * point.predicted(late).efficiency) for point in published.figures()]
        assert published.fitted(made) == pytest.approx(late, abs=0.0006)


def test_what_clusters_take_is_what_is_fitted(table):
    assert published.fitted() == pytest.approx(LATE)
    assert published.margin_points() == pytest.approx(MARGIN_POINTS, abs=0.05)
    assert (table["error_points"].abs() <= published.margin_points()).mean() >= 0.8


@pytest.mark.parametrize("publisher", ["Horovod", "Hugging Face"])
def test_predictions_ignore_publishers_own_figures(table, publisher, monkeypatch):
    doctored = tuple(
        replace(point, percent=50.0) if point.publisher == publisher else point for point in published.figures()
    )
    monkeypatch.setattr(published, "figures", lambda: doctored)
    columns = ["predicted_percent", "low_percent", "high_percent"]
    of, others = table["publisher"] == publisher, table["publisher"] != publisher
    changed = published.compared()
    assert changed.loc[of, columns].equals(table.loc[of, columns])
    assert not changed.loc[others, columns].equals(table.loc[others, columns])


def test_interval_coverage_and_baselines(table, scores):
    inside = table["published_percent"].between(table["low_percent"], table["high_percent"])
    assert inside.equals(table["inside"]) and scores["inside"]["all"] == inside.sum()
    assert inside.mean() >= 0.8  # the nominal four of five, on figures that neither fit nor margin has seen
    groups = {name: table[column].sum() for column, name in published.PARTS.items()}
    assert {name: scores["figures"][name] for name in groups} == groups and min(groups.values()) > 0
    assert scores["figures"]["all"] == len(table) == scores["figures"].drop(["all", *groups]).sum()
    assert scores["always"]["all"] == pytest.approx((90 - table["published_percent"]).abs().mean())
    one = table.query("publisher == 'Facebook'").iloc[0]
    others = table.query("publisher != 'Facebook'")["published_percent"].mean()
    assert scores["mean"]["Facebook"] == pytest.approx(abs(others - one["published_percent"]))
    assert scores["model"]["all"] == pytest.approx(table["error_points"].abs().mean())
    errors = table["predicted_percent"] - table["published_percent"]
    assert table["error_points"].tolist() == pytest.approx(errors.tolist())


def test_held_out_figures_are_of_other_publishers_and_predicted_as_clusters_are():
    table = published.held_out()
    assert not set(table["publisher"]) & {source["publisher"] for source in RECORDED["source"].values()}
    row = table.query("study == 'raysgd' and gpus == 8 and half").iloc[0]
    same = cluster("dgx-1", 1, "resnet50", batch=128, late=LATE, images_per_s=770, all_reduces=4)
    assert row["published_percent"] == pytest.approx(100 * 5862 / 8 / 770)
    assert row["predicted_percent"] == pytest.approx(100 * same.efficiency, abs=0.1)
