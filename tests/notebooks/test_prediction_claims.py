"""Lesson 2's claims about published scaling: each sentence is a predicate on recorded figures, as in test_claims."""

import pandas
import pytest

from course.topology import published
from ddl.paired_stats import Paired
from helpers import ROOT, claims_of

LESSON = "2c.Algorithms-and-Predictions"


class Figures:
    """The recorded figures, and the tables that the lesson shows of them."""

    def __init__(self):
        self.points, self.table, self.programs = published.figures(), published.compared(), published.programs()
        self.scores = published.by_publisher(self.table).set_index("publisher")

    def row(self, **wanted):
        """Return the one figure with these columns."""
        keys = list(wanted)
        (row,) = self.table[(self.table[keys] == pandas.Series(wanted)).all(axis=1)].to_dict("records")
        return row

    def gain(self):
        """Return by how many points the prediction is nearer than 90 %, paired by figure."""
        always, model = (self.table[f"{name}error_points"].abs() for name in ("always_", ""))
        return Paired(tuple(always - model))

    def over_tcp(self, network):
        """Return what training over TCP reaches of what it reaches over RDMA on 16 GPUs, in percent."""
        both = (self.row(study="horovod-16", network=network, through=through) for through in ("TCP", ""))
        tcp, rdma = (row["published_percent"] for row in both)
        return 100 * tcp / rdma


def errors(figures):
    scores = figures.scores.loc["all"]
    return [round(scores[column], 1) for column in ("model", "always", "mean")]


def punctual(figures):
    return figures.table["punctual_percent"] - figures.table["published_percent"]


def inside(figures, publisher):
    return figures.scores["inside"][publisher], figures.scores["figures"][publisher]


def thirty_two(figures):
    return figures.programs.query("network == 'ResNet-50' and gpus == 32").iloc[0]


def lost(figures):
    return {name: round(100 - figures.over_tcp(name)) for name in ("VGG-16", "ResNet-101", "Inception V3")}


def many(figures):
    return figures.row(study="playbook", gpus=256)


def computation_ms(figures):
    (step,) = (point.step for point in figures.points if point.source == "playbook" and point.step.ranks == 256)
    return round(1e3 * step.computation_s)


CLAIMS = {
    "The prediction is off by 6.0 points on average.": lambda f: errors(f)[0] == 6.0,
    "A constant 90 % is off by 6.8, and answering the mean of the others' figures by 8.0.": lambda f: (
        errors(f)[1:] == [6.8, 8.0]
    ),
    "Per figure, the prediction is closer than 90 % by 0.9 points, with a 95 % interval from −0.6 to 2.4: no clear "
    "difference.": lambda f: (
        [round(value, 1) for value in (f.gain().mean, f.gain().low, f.gain().high)] == [0.9, -0.6, 2.4]
    ),
    "Without the wait for the slowest it would be too high for 59 of the 67 figures, by 6.4 points on average.": (
        lambda f: ((punctual(f) > 0).sum(), len(f.table), round(punctual(f).mean(), 1)) == (59, 67, 6.4)
    ),
    "The bars in the figure should contain four of five figures, and contain 56 of 67.": lambda f: (
        inside(f, "all") == (56, 67) and 56 / 67 >= published.OF_FIVE / 5
    ),
    "For some publishers they do not: they contain 9 of Horovod's 15 figures and 2 of Hugging Face's 5.": lambda f: (
        (*inside(f, "Horovod"), *inside(f, "Hugging Face")) == (9, 15, 2, 5)
    ),
    "On 256 H100s the prediction is 74 %, and 39 % were measured: there a GPU computes for only 102 ms in a step, so "
    "what does not shrink with its part of the batch dominates.": lambda f: (
        (round(many(f)["predicted_percent"]), round(many(f)["published_percent"]), computation_ms(f)) == (74, 39, 102)
    ),
    "On the same 32 GPUs the best of eight programs reaches 98 % with ResNet-50, and the worst 78 %.": lambda f: (
        [round(thirty_two(f)[f"{end}_percent"]) for end in ("most", "least")] == [98, 78]
        and thirty_two(f)["programs"] == 8
        and thirty_two(f)["median_percent"] < 92
    ),
    "On average a program is 5.5 points from the median.": lambda f: (
        round((f.programs["apart_points"] * f.programs["programs"]).sum() / f.programs["programs"].sum(), 1) == 5.5
    ),
    "A model that knows only the machine can't know the program.": lambda f: (
        f.programs["apart_points"].mean() > f.scores["model"]["OneFlow"]
    ),
    "Over TCP, VGG-16 trains 27 % fewer images/s than over RDMA, ResNet-101 3 % and Inception V3 2 %.": lambda f: (
        list(lost(f).values()) == [27, 3, 2]
    ),
    "So TCP can explain that VGG-16 has only 64 % on 64 GPUs, but not the 83 % of Inception V3.": lambda f: (
        round(f.row(study="horovod-64", network="VGG-16")["published_percent"]) == 64
        and round(f.row(study="horovod-64", network="Inception V3")["published_percent"]) == 83
        and lost(f)["VGG-16"] > 20
        and lost(f)["Inception V3"] < 5
    ),
}


@pytest.fixture(scope="module")
def recorded():
    return Figures()


def test_every_claim_of_the_lesson_is_checked():
    assert sorted(claims_of(LESSON)) == sorted(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds_on_the_figures(claim, recorded):
    assert CLAIMS[claim](recorded)


def test_measured_md_has_the_figures(recorded):
    model, always, mean = errors(recorded)
    gain, held = recorded.gain(), recorded.scores.loc["all"]
    apart = (recorded.programs["apart_points"] * recorded.programs["programs"]).sum()
    ranks = [point.step.ranks for point in recorded.points]
    measured = " ".join((ROOT / "docs" / "measured.md").read_text().split())
    for words in (
        f"with {len(recorded.points)} scaling efficiencies of six publishers, on {min(ranks)} to {max(ranks)} GPUs",
        f"off by {model} points on average. Always guessing 90 % is off by {always} points, and guessing the mean of the "
        f"others' figures by {mean}",
        f"(by {gain.mean:.1f} points, {gain.low:.1f} to {gain.high:.1f})".replace("-", "−"),
        f"± {published.margin_points():.1f} points for four of five figures, contains {held['inside']:.0f} of the",
        f"are {apart / recorded.programs['programs'].sum():.1f} points apart from their median",
    ):
        assert words in measured, words


def held_out_words(table):
    """Return the page's text about held-out figures."""
    scores = published.by_publisher(table).set_index("publisher").round(1)
    gains = table["always_error_points"].abs() - table["error_points"].abs()
    each = gains.groupby(table["publisher"]).mean()
    *most, last = sorted(each.index, key=str.lower)
    every, half, strong = (scores.loc[name] for name in ("all", *published.PARTS.values()))
    by_figure, by_publisher = (
        f"{pairs.mean:.1f} points ({pairs.low:.1f} to {pairs.high:.1f})".replace("-", "−")
        for pairs in (Paired(tuple(gains)), Paired(tuple(each)))
    )
    efficiencies = table["published_percent"]
    return (
        f"{len(table)} scaling efficiencies of six publishers that it had not seen",
        f"of {', '.join(most)} and {last}, on {table['gpus'].min()} to {table['gpus'].max()} GPUs",
        f"off by {every['model']} points on average. Always guessing 90 % is off by {every['always']} points, and guessing "
        f"the mean of the 67 by {every['mean']}. By figure, the prediction is nearer than 90 % by {by_figure}",
        f"nearer for {(each > 0).sum()} of the {len(each)} publishers, and the mean of the publishers' means is "
        f"{by_publisher}",
        f"contains {every['inside']:.0f} of the {len(table)}, or {100 * every['inside'] / len(table):.0f} %",
        f"Of the {half['figures']:.0f} figures in half precision the prediction is off by {half['model']} points and 90 % by "
        f"{half['always']}; of the {strong['figures']:.0f} with strong scaling by {strong['model']} and {strong['always']}.",
        f"{(efficiencies > 100).sum()} of the figures are above 100 %, up to {efficiencies.max():.0f} %",
    )


def test_measured_md_has_the_held_out_figures():
    measured = " ".join((ROOT / "docs" / "measured.md").read_text().split())
    assert [words for words in held_out_words(published.held_out()) if words not in measured] == []
