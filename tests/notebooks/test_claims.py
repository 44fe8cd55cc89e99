"""What Start_Here and lessons 3 to 5 say that recorded runs show: each sentence is a predicate on the records.

Each sentence is in a cell with the tag `claims`, and here, word for word. A new recording that makes it false fails
here, and so does a sentence that nobody checks.
"""

import math
import re
import statistics
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import lessons
from course import critical, precisions, recorded
from course.challenge import TARGET
from course.challenge.findings import ablations, best_of
from course.challenge.verdict import Score
from course.convergence.critical import Critical, Noise
from course.convergence.sharpness import MEASURES, between_settings, sharpness, within_settings
from course.shared.recorded import Recorded
from ddl.paired_stats import Paired, holm, paired
from helpers import ROOT, claims_of

MARGIN = 1.0  # points; a smaller difference is within the margin
FAR = 10.0  # points: written down after the results, like the bounds 400 and 900, a factor of three and five points
LESSONS = [source.stem for source in lessons.sources(ROOT) if source.stem[0] in "345S"]


class Records:
    """The recorded runs, or others: `draw` maps the runs of a file."""

    def __init__(self, draw=lambda name, results: results):
        self.results = cache(lambda name: draw(name, [run.result for run in recorded(name)]))

    def configuration(self, name, figure="test_accuracy", file="convergence-cifar10") -> dict[int, float]:
        """Return a figure of a configuration by seed, in percent where it is a share."""
        scale = 100 if figure.endswith("accuracy") else 1
        judged = (result for result in self.results(file) if result.get("role") != "tuning")
        found = {result["seed"]: scale * result[figure] for result in judged if result["name"] == name}
        assert len(found) >= 5, (name, figure, file)
        return found

    def gain(self, one, other, figure="test_accuracy", file="convergence-cifar10") -> Paired:
        """Return other − one, paired by seed."""
        return paired(self.configuration(one, figure, file), self.configuration(other, figure, file))

    @cache  # noqa: B019 - a few of these live in this module's tests
    def curve(self, configuration, file="critical-batch") -> Critical:
        """Return the steps to the target by batch size, of an optimizer."""
        return critical.critical_batch(map(Recorded, self.results(file)), configuration=configuration)

    def chosen(self, configuration, knob) -> dict[int, float]:
        """Return what the sweep with all tuned chose for each batch."""
        judged = (r for r in self.results(ALL_TUNED) if (r["configuration"], r["role"]) == (configuration, "judged"))
        return {result["global_batch"]: result["config"][knob] or 0 for result in judged}

    def live_noise(self, batch) -> Noise:
        """Return what judged runs of SGD with momentum estimated while they trained."""
        return critical.noise(
            Recorded(result)
            for result in self.results("critical-batch")
            if (result["configuration"], result["role"], result["global_batch"])
            == ("SGD with momentum", "judged", batch)
        )

    def frozen_noise(self) -> Noise:
        """Return the noise scale at frozen weights."""
        return Noise(tuple(self.frozen_scales().values()))

    def frozen_scales(self) -> dict[tuple[float, int], float]:
        """Return the noise scale at frozen weights, by accuracy and seed."""
        return {
            (result["target"], result["seed"]): result["noise"]["noise_scale"] or math.inf
            for result in self.results("noise-frozen")
        }

    def parameters(self, configuration) -> int:
        """Return the number of weights of a configuration of the challenge's ablations."""
        (count,) = {r["parameters"] for r in self.results("challenge-ablations") if r["configuration"] == configuration}
        return count

    def rate(self, name, file="convergence-cifar10") -> float:
        """Return the learning rate of a configuration."""
        (rate,) = {result["learning_rate"] for result in self.results(file) if result["name"] == name}
        return rate


def figures(results, figure):
    """Return a figure of each result, in percent."""
    return [100 * result[figure] for result in results]


def above(pair):
    return pair.verdict(MARGIN) == "better"


def below(pair):
    return pair.verdict(MARGIN) == "worse"


def level(pair):
    return pair.verdict(MARGIN) == "within the margin"


PAPERS = "LARS, trust 0.001"
LARGE_ARMS = (
    "large batch",
    "large batch + BN",
    "large batch + BN, same rate",
    "+ linear scaling",
    "+ warm-up",
    "+ linear scaling, warm-up",
    "+ square-root scaling, warm-up",
    "LARS",
    PAPERS,
    "LAMB",
)


def alike(step_records):
    """Return for each step whether all ranks made the same update of their weights."""
    return [len({step["update"] for step in ranks}) == 1 for ranks in zip(*(rank["steps"] for rank in step_records))]


BATCH_1024 = "large batch + BN"
LINEAR, SQUARE_ROOT = "+ linear scaling, warm-up", "+ square-root scaling, warm-up"

MOMENTUM, PLAIN, LAMB = "SGD with momentum", "plain SGD", "LAMB"
ALL_TUNED = "critical-batch-tuned"
SMALL_BN, SMALL_WARM, ARMS_AGAIN = "small batch + BN", "batch 64 with warm-up", "convergence-again"


def later(records, configuration=LAMB, most=math.inf):
    """Return the 95 % interval of a critical batch over momentum's, all tuned, with the seeds drawn again.

    Curves are fitted to batches of `most` samples or fewer.
    """
    results = [result for result in records.results(ALL_TUNED) if result["global_batch"] <= most]
    curves = [critical.critical_batch(map(Recorded, results), configuration=each) for each in (configuration, MOMENTUM)]
    return np.percentile(curves[0].drawn / curves[1].drawn, (2.5, 97.5))


def seeds_steps(records, configuration, batch, file="critical-batch"):
    """Return the steps to the target of each judged seed."""
    (point,) = (point for point in records.curve(configuration, file).points if point.batch == batch)
    return [run.steps for run in point.seeds.values()]


def through(records, *batches):
    """Return the curve of SGD with momentum through some of its batches."""
    curve = records.curve(MOMENTUM)
    return replace(curve, points=tuple(point for point in curve.points if point.batch in batches))


def the_noise_scale_is_near(records):
    estimates = [records.frozen_noise(), records.live_noise(64), records.live_noise(1024)]
    return all(1 / 3 < records.curve(MOMENTUM).fit.critical / noise.middle < 3 for noise in estimates)


def bends(records):
    """Return the intervals of the critical batch sizes, earliest first by what is claimed."""
    return [records.curve(configuration).fit.interval for configuration in (PLAIN, MOMENTUM, LAMB)]


def ghosts(records):
    """Return each norm's difference to a ghost batch of 32."""
    configurations = ("ghost batch 64", "ghost batch 128", "ghost batch 512", "synchronous, 1024")
    return {
        configuration: records.gain("ghost batch 32", configuration, file="ghost-batches")
        for configuration in configurations
    }


GAP, TO_LOSS = "generalization", "batch, to a loss"


def gap(records, one, other):
    """Return other − one, of configurations that may memorize their images."""
    return records.gain(one, other, file=GAP)


def by_sharpness(records, find, figure):
    """Return the rank correlations of both measures of sharpness with a held-out figure."""
    table = sharpness([Recorded(result) for result in records.results("landscape")])
    return [find(table, measure, figure) for measure in MEASURES]


def invariant_p(records):
    """Return p of the scale-invariant measure within settings and held-out errors, among all four of the findings."""
    figures = ("test_error", "test_loss")
    return holm([pair.p for figure in figures for pair in by_sharpness(records, within_settings, figure)])[1]


def seeds_again(records, column):
    """Return the rank correlation of a column of `sharpness` with held-out errors, within settings with new seeds."""
    table = sharpness([Recorded(result) for result in records.results("landscape-again")])
    return within_settings(table, column, "test_error")


BASELINE = "challenge-baseline"


def on_the_way(records, done):
    """Return the public accuracy of the baseline's runs, in percent, when a part of the samples is done."""
    results = records.results(BASELINE)
    assert len(results) == 20
    return [
        100 * row["test_accuracy"]
        for result in results
        for row in result["history"]
        if row["samples"] == done * result["samples"]
    ]


def luck(records):
    """Return by how many points the best of ten runs of the baseline is above the mean of all."""
    reached = figures(records.results(BASELINE), "private_accuracy")
    assert len(reached) == 20
    return best_of(reached, 10) - statistics.fmean(reached)


def late_gain(records):
    return statistics.fmean(on_the_way(records, 1)) - statistics.fmean(on_the_way(records, 0.75))


def shown(records):
    """Return which part of scores of five counts a point above the target, and how far the mean of all is above that.

    A score is five of the baseline's recorded runs, drawn with replacement.
    """
    target, reached = 100 * TARGET + 1, figures(records.results(BASELINE), "private_accuracy")
    fives = np.random.default_rng(0).choice(reached, (20_000, 5))
    needed = 3.747  # t of four degrees of freedom, p = 0.01
    counted = fives.mean(axis=1) - target > needed * fives.std(axis=1, ddof=1) / math.sqrt(5)
    return np.mean(counted), statistics.fmean(reached) - target


def judged_ideas(records):
    return [result for result in records.results("challenge-ablations") if result["role"] == "judged"]


def left_out(records):
    """Return the differences to the reference's one pass when a trick is left out, by trick."""
    results = judged_ideas(records)
    reached = {
        configuration: {
            each["seed"]: 100 * each["private_accuracy"] for each in results if each["configuration"] == configuration
        }
        for configuration in {each["configuration"] for each in results}
    }
    whole = reached.pop("one pass")
    assert len(whole) >= 5
    tricks = {
        configuration.removeprefix("without "): found
        for configuration, found in reached.items()
        if configuration.startswith("without ")
    }
    return {trick: paired(whole, found) for trick, found in tricks.items()}


MISSED = ("whitening", "faster norm statistics")


def corrected(records):
    """Return p of each trick's difference, corrected for the number of tricks."""
    found = left_out(records)
    return dict(zip(found, holm([pair.p for pair in found.values()]), strict=True))


def apart(values):
    return max(values) - min(values)


CLAIMS = {
    # Start_Here
    "On CIFAR-10, four passes over 45,056 images reach about 78 % (lesson 4).": (
        lambda r: 77.5 <= statistics.fmean(r.configuration("small batch + BN").values()) < 78.5
    ),
    # The challenge
    "Nothing was improved, and yet the best of ten runs is more than half a point above the mean of all twenty.": (
        lambda r: luck(r) > 0.5
    ),
    "After half of their samples the recorded runs are past 60 % on average, and in the last quarter they gain less "
    "than three points.": lambda r: statistics.fmean(on_the_way(r, 0.5)) > 60 and 0 < late_gain(r) < 3,
    "In these runs the same file's accuracies lie more than ten points apart half-way, and at the end less than three.": lambda r: (
        apart(on_the_way(r, 0.5)) > 10 and apart(on_the_way(r, 1)) < 3
    ),
    "By the fitted curve a batch of 1,024 needs more than twice the samples of a batch of 64, and more than half of its "
    "samples are the price of the batch.": lambda r: (
        1024 * r.curve(MOMENTUM).fit.steps(1024)
        > 2 * max(64 * r.curve(MOMENTUM).fit.steps(64), r.curve(MOMENTUM).fit.samples_min)
    ),
    "In these runs all noise scales at frozen weights lie below 1,024.": lambda r: max(r.frozen_noise().values) < 1024,
    "The mean of its twenty runs is more than a point above the target.": lambda r: shown(r)[1] > 0,
    "Without Muon one pass ends more than five points lower; no other trick matters as much.": lambda r: (
        left_out(r)["Muon"].high < -5
        and left_out(r)["Muon"].high < min(pair.low for trick, pair in left_out(r).items() if trick != "Muon")
    ),
    "Without late widening accuracy is lower at equal multiplications, but not at equal weights.": (
        lambda r: (
            r.parameters("without width late") < r.parameters("one pass") / 3
            and r.parameters("without width late, equal weights") == pytest.approx(r.parameters("one pass"), rel=0.01)
            and below(left_out(r)["width late"])
            and corrected(r)["width late"] < 0.05
            and not below(left_out(r)["width late, equal weights"])
        )
    ),
    "In these runs whitening and faster norm statistics also matter.": lambda r: all(
        below(left_out(r)[trick]) and corrected(r)[trick] < 0.05 for trick in MISSED
    ),
    "Without small shifts, without faster biases, and with plain widths of equal weights these runs end higher on average: "
    "three of the published tricks cost accuracy in one epoch.": lambda r: (
        {trick for trick, pair in left_out(r).items() if pair.low > 0}
        == {"small shifts", "faster biases", "width late, equal weights"}
    ),
    "At a target one point higher, still below the mean of all runs, fewer than one score in five of these runs counts.": lambda r: (
        0 < shown(r)[0] < 0.2 and shown(r)[1] > 0
    ),
    # Equal epochs and equal steps
    "At equal epochs the large batch is behind the small one, each at its own best learning rate.": lambda r: below(
        r.gain("small batch + BN", BATCH_1024)
    ),
    "It also does worse on its own training images.": lambda r: below(
        r.gain("small batch + BN", BATCH_1024, "clean_accuracy")
    ),
    "At equal steps it is ahead by more than ten points.": lambda r: (
        r.gain("small batch + BN, few steps", BATCH_1024).low > FAR
    ),
    # The critical batch size
    "At 4,096 each of the recorded runs takes longer than a curve through the recorded batches of 64, 256 and 1,024 says.": (
        lambda r: min(seeds_steps(r, MOMENTUM, 4096)) > through(r, 64, 256, 1024).fit.steps(4096)
    ),
    "All batches of these runs together also reject the curve, because they differ from it by more than seeds do: lack of "
    "fit has p < 0.01.": lambda r: r.curve(MOMENTUM).lack_of_fit < 0.01,
    "In these runs, and if its curve is right, the critical batch size of SGD with momentum lies between 400 and 900.": lambda r: (
        400 < r.curve(MOMENTUM).fit.interval[0] and r.curve(MOMENTUM).fit.interval[1] < 900
    ),
    "But its points differ from the curve by more than seeds do in these runs: lack of fit has p < 0.01.": lambda r: (
        r.curve(MOMENTUM).lack_of_fit < 0.01
    ),
    "In these runs the noise scale, live or at frozen weights, is within a factor of three of it.": (
        the_noise_scale_is_near
    ),
    "Plain SGD bends earlier and LAMB later, and the three intervals do not overlap.": lambda r: all(
        earlier[1] < later[0] for earlier, later in pairwise(bends(r))
    ),
    # The gap
    "At equal epochs the large batch is more than five points behind, but it has not learned its images, and the small "
    "one has.": lambda r: (
        gap(r, "small batch", "large batch").high < -5
        and max(r.configuration("large batch", "clean_accuracy", GAP).values()) < 80
        and min(r.configuration("small batch", "clean_accuracy", GAP).values()) > 95
    ),
    "At equal steps it has learned all of them and is still behind.": lambda r: (
        below(gap(r, "small batch", "large batch, equal steps"))
        and min(r.configuration("large batch, equal steps", "clean_accuracy", GAP).values()) > 99.9
    ),
    "At equal training loss its held-out accuracy is lower.": lambda r: below(
        gap(r, "small batch, to a loss", "large batch, to a loss")
    ),
    "With ten other seeds its held-out loss is also lower, which is better.": lambda r: (
        r.gain("small batch, to a loss", "large batch, to a loss", "test_loss", "equal-loss-again").high < 0
    ),
    # Sharpness
    "Between the twelve settings, sharper networks get more held-out images wrong, by both measures.": lambda r: all(
        found.low > 0 for found in by_sharpness(r, between_settings, "test_error")
    ),
    "Within a setting, runs with a larger eigenvalue do so as well, in these runs.": lambda r: (
        by_sharpness(r, within_settings, "test_error")[0].low > 0
    ),
    "For the scale-invariant one the interval barely excludes 0 in these runs, and its corrected p is above 0.05.": (
        lambda r: 0 < by_sharpness(r, within_settings, "test_error")[1].low < 0.05 < invariant_p(r)
    ),
    "In these runs, new seeds with the larger eigenvalue again have more images wrong within a setting.": lambda r: (
        seeds_again(r, "sharpness").low > 0
    ),
    "Whether errors correlate with the training loss at which runs stopped is not decided: the interval contains 0.": (
        lambda r: seeds_again(r, "clean_loss").low < 0 < seeds_again(r, "clean_loss").high
    ),
    # Norms
    "In these runs every interval against a ghost batch of 32 contains 0.": lambda r: all(
        pair.low < 0 < pair.high for pair in ghosts(r).values()
    ),
    "For 64 and for 512 it lies within the margin, and for 128 and synchronous batch norm the records do not decide.": (
        lambda r: (
            {configuration: pair.verdict(MARGIN) for configuration, pair in ghosts(r).items()}
            == {
                "ghost batch 64": "within the margin",
                "ghost batch 128": "not decided",
                "ghost batch 512": "within the margin",
                "synchronous, 1024": "not decided",
            }
        )
    ),
    # Rules and warm-up
    "The linear rule without a warm-up is worse than no scaling at all by more than ten points.": lambda r: (
        r.gain(f"{BATCH_1024}, same rate", "+ linear scaling").high < -FAR
    ),
    "With a warm-up it beats the best learning rate that has none.": lambda r: above(r.gain(BATCH_1024, LINEAR)),
    "After a warm-up the linear and the square-root rule differ by less than our margin of a point.": lambda r: level(
        r.gain(LINEAR, SQUARE_ROOT)
    ),
    "With ten other seeds the linear rule and that best rate differ by less than the margin.": lambda r: level(
        r.gain("+ warm-up", LINEAR, file=ARMS_AGAIN)
    ),
    "In these runs both fall short of the best learning rate, which lies between them.": lambda r: (
        below(r.gain("+ warm-up", LINEAR))
        and below(r.gain("+ warm-up", SQUARE_ROOT))
        and r.rate(SQUARE_ROOT) < r.rate("+ warm-up") < r.rate(LINEAR)
    ),
    # A step size for each layer
    "Between LARS and SGD with warm-up the records do not decide.": lambda r: (
        r.gain("+ warm-up", "LARS").verdict(MARGIN) == "not decided"
    ),
    "LAMB is behind SGD with warm-up; with ten other seeds of these runs it is still behind, but by less than our margin "
    "of a point.": lambda r: (
        below(r.gain("+ warm-up", "LAMB"))
        and -MARGIN < r.gain("+ warm-up", "LAMB", file=ARMS_AGAIN).low
        and r.gain("+ warm-up", "LAMB", file=ARMS_AGAIN).high < 0
    ),
    "LARS with its paper's trust coefficient is behind LARS with ours.": lambda r: below(r.gain("LARS", PAPERS)),
    "With a separate learning rate for biases and norms, LARS with its paper's coefficient is ahead of the same without, "
    "and within the margin of LARS with ours.": lambda r: (
        above(r.gain(PAPERS, f"{PAPERS}, biases apart", file="lars-biases"))
        and level(r.gain("LARS", f"{PAPERS}, biases apart", file="lars-biases"))
    ),
    # Lesson 3b: the eighth case of the bug hunt
    "In the recorded runs, no script ended with an error, and every loss fell.": lambda r: all(
        result["loss"] < result["first_loss"] and [rank["rank"] for rank in result["step_records"]] == [0, 1]
        for result in r.results("keras")
    ),
    "With Keras 2, the ranks made the same update in every step, with Keras 3 in none.": lambda r: (
        {(result["name"], step_alike) for result in r.results("keras") for step_alike in alike(result["step_records"])}
        == {("Keras 2", True), ("Keras 3", False)}
    ),
    "Five seeds do not tell the two apart by held-out accuracy.": lambda r: (
        not (above(r.gain("Keras 2", "Keras 3", file="keras")) or below(r.gain("Keras 2", "Keras 3", file="keras")))
    ),
    "With ten other seeds a warm-up helps the small batch of these runs as well; with a warm-up on both sides, the large "
    "batch trails by more than three points.": lambda r: (
        above(r.gain(SMALL_BN, SMALL_WARM, file=ARMS_AGAIN))
        and r.gain(SMALL_WARM, "+ warm-up", file=ARMS_AGAIN).high < -3
    ),
    "Nothing closes the gap to the small batch.": lambda r: all(
        below(r.gain("small batch + BN", configuration)) for configuration in LARGE_ARMS
    ),
}


def test_every_claim_of_the_lessons_is_checked():
    assert sorted(claims_of(*LESSONS)) == sorted(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds_on_the_records(claim):
    assert CLAIMS[claim](Records())


AGAIN = 40  # recordings that are drawn
RARELY = (
    0.8  # a claim that would hold less often than this speaks of the runs that there are, or of what is not decided
)
CAREFUL = re.compile(r"these runs|[Rr]ecorded runs|not decide|margin|of its twenty runs|do not tell|corrected p")


def drawn_again(number):
    """Return a function that draws the seeds of each file's judged runs with replacement, the same for all configurations."""

    def again_of(name, results):
        judged = [result for result in results if result.get("role") != "tuning"]
        seeds = sorted({result["seed"] for result in judged if "seed" in result})
        draw = np.random.default_rng([number, len(seeds)]).choice(seeds, len(seeds)) if seeds else ()
        kept = [result for result in results if result not in judged or "seed" not in result]
        again = [
            result | {"seed": place} for place, seed in enumerate(draw) for result in judged if result["seed"] == seed
        ]
        return kept + again

    return again_of


@cache
def recordings():
    return [Records(drawn_again(number)) for number in range(AGAIN)]


def chance(claim):
    """Return how often a claim holds on recordings with seeds drawn from the recorded ones."""
    held = 0
    for records in recordings():
        try:
            held += bool(CLAIMS[claim](records))
        except (AssertionError, ValueError):  # too few different seeds for it to be asked
            continue
    return held / AGAIN


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_holds_with_resampled_seeds_or_is_qualified(claim, capsys):
    found = chance(claim)
    with capsys.disabled():
        print(f"\n{found:.0%} to hold when recorded again: {claim}")
    assert found >= RARELY or CAREFUL.search(claim), claim


# ---------------------------------------------------------------- the figures of docs/findings.md

FINDINGS = " ".join((ROOT / "docs" / "findings.md").read_text().split())


def mean(records, configuration):
    return f"{statistics.fmean(records.configuration(configuration).values()):.1f} %"


def points(pair):
    return f"{pair.mean:+.1f} ± {pair.half_width:.1f}".replace("-", "−")


def behind(records, configuration):
    return points(records.gain(SMALL_BN, configuration))


def large_batch(records):
    plain, warm, root = "+ linear scaling", LINEAR, SQUARE_ROOT
    yield f"| batch 64, learning rate {records.rate(SMALL_BN):g} | {mean(records, SMALL_BN)} | |"
    for configuration, what in ((BATCH_1024, "best learning rate, {:g}"), ("+ warm-up", "best learning rate {:g}")):
        yield f"{what.format(records.rate(configuration))} | {mean(records, configuration)} | {behind(records, configuration)} |"
    yield (
        f"linear rule, {records.rate(warm):g}, with a warm-up (without one) | {mean(records, warm)} "
        f"({mean(records, plain)}) | {behind(records, warm)} ({behind(records, plain)}) |"
    )
    yield f"rule, {records.rate(root):g}, with a warm-up | {mean(records, root)} | {behind(records, root)} |"
    yield (
        f"0.001) | {mean(records, 'LARS')} ({mean(records, PAPERS)}) | {behind(records, 'LARS')} "
        f"({behind(records, PAPERS)}) |"
    )
    yield f"| LAMB | {mean(records, 'LAMB')} | {behind(records, 'LAMB')} |"
    compared = (BATCH_1024, "+ warm-up", warm, plain, root, "LARS", PAPERS, "LAMB")
    assert max(holm([records.gain(SMALL_BN, configuration).p for configuration in compared])) < 0.001
    yield "After Holm's correction for the eight comparisons of this table each p is below 0.001."


def critical_batches(records):
    curves = {configuration: records.curve(configuration) for configuration in (PLAIN, MOMENTUM, LAMB)}
    yield from (f"| {configuration} | {curve.fit} |" for configuration, curve in curves.items())
    yield f"for plain SGD p is {curves[PLAIN].lack_of_fit:.2f}, for LAMB {curves[LAMB].lack_of_fit:.2f}"
    yield f"(lack of fit, p = {curves[MOMENTUM].lack_of_fit:.3f})"
    exponents = [f"{curve.exponent[0]:.2f} (critical batch {curve.exponent[1]:,.0f})" for curve in curves.values()]
    yield "(critical batch / batch) is {}, {} and {}".format(*exponents)
    (untuned,) = (point.batch for point in curves[PLAIN].points if point.grid.best is None)
    tuned = replace(curves[PLAIN], points=tuple(p for p in curves[PLAIN].points if p.batch != untuned))
    yield f"At {untuned:,} no learning rate of plain SGD's grid"
    yield f"without that batch its critical batch is {tuned.fit}"
    noise, frozen = [round(records.live_noise(batch).middle) for batch in (64, 1024)], records.frozen_noise()
    yield f"is {noise[0]} and {noise[1]} while SGD with momentum"
    yield f"and {frozen.middle:.0f} at frozen weights ({min(frozen.values):.0f} to {max(frozen.values):.0f} in nine"


def critical_batches_all_tuned(records):
    low, high = later(records)
    more = {}  # of LAMB's steps, in %: what the geometric mean says, and whether seeds decide
    for batch in (32, 128, 512, 1024, 2048, 4096):
        steps = [np.log(seeds_steps(records, configuration, batch, ALL_TUNED)) for configuration in (MOMENTUM, LAMB)]
        pair = paired(*(dict(enumerate(each)) for each in steps))
        more[batch] = round(100 * (math.exp(pair.mean) - 1)), not pair.low < 0 < pair.high
    assert [batch for batch, (_, decided) in more.items() if not decided] == [2048]
    least, *_, most = sorted(value for value, decided in more.values() if decided and value > 0)
    yield (
        f"LAMB's critical batch is {low:.2f} to {high:.2f} times that of SGD with momentum, and plain SGD's "
        "{:.2f} to {:.2f}".format(*later(records, PLAIN))
    )
    yield "plain SGD's critical batch is {:.2f} to {:.2f} times".format(*later(records, PLAIN, 1024))
    yield "and LAMB's {:.2f} to {:.2f} times".format(*later(records, LAMB, 1024))
    assert not any(records.chosen(LAMB, "warmup_epochs").values())
    assert {batch for batch, epochs in records.chosen(MOMENTUM, "warmup_epochs").items() if not epochs} >= {2048, 4096}
    yield "LAMB did best without one at every batch, and so did SGD with momentum at 2,048 and 4,096."
    momentum = {batch: momentum or 0.9 for batch, momentum in records.chosen(MOMENTUM, "momentum").items()}
    assert momentum == {32: 0.9, 128: 0.9, 512: 0.95, 1024: 0.95, 2048: 0.95, 4096: 0.95}
    yield "0.95 was best from 512 on"
    yield f"at 4,096 alone, with {-more[4096][0]} % fewer steps"
    yield f"up to 1,024 it takes {least} to {most} % more"
    for configuration in (PLAIN, MOMENTUM, LAMB):
        curve = records.curve(configuration, ALL_TUNED)
        drawn = "{:,.0f} to {:,.0f}".format(*np.percentile(curve.drawn, (2.5, 97.5)))
        yield f"| {configuration} | {curve.fit} | {drawn} | {curve.lack_of_fit:.1g} | {curve.exponent[0]:.2f} |"


def generalization_gap(records):
    yield f"| batch 1,024, 10 epochs (50 steps) | {points(gap(records, 'small batch', 'large batch'))} |"
    yield f"| as many steps, 800 | {points(gap(records, 'small batch', 'large batch, equal steps'))} |"
    yield f"| at equal training loss | {points(gap(records, f'small {TO_LOSS}', f'large {TO_LOSS}'))} |"
    yield f"equal training loss | {points(gap(records, f'small {TO_LOSS}', 'small batch, low rate, to a loss'))} |"
    again = "equal-loss-again"
    for configuration, what in {
        "large batch": "batch 1,024",
        "small batch, low rate": "batch 64, an eighth",
        "large batch, low rate": "batch 1,024, an eighth",
    }.items():
        first, second = (
            records.gain("small batch, to a loss", f"{configuration}, to a loss", file=file) for file in (GAP, again)
        )
        assert len(second.differences) == 10 and below(second)
        yield f"| {what} | {points(first)} | {points(second)} |"
    stops = [
        statistics.fmean(records.configuration(f"{configuration}, to a loss", "clean_loss", again).values())
        for configuration in ("small batch", "large batch, low rate")
    ]
    yield f"stopped {stops[1] - stops[0]:.3f} higher than batch 64"
    low = records.gain("small batch, low rate, to a loss", "large batch, to a loss", file=again)
    yield f"{points(low)} points: {low.verdict(MARGIN)}"
    loss = records.gain("small batch, to a loss", "large batch, to a loss", "test_loss", again)
    yield f"is lower, and so better, by {-loss.mean:.3f} ± {loss.high - loss.mean:.3f}"


def sharpness_ranks(records):
    table = pd.DataFrame(sharpness(recorded("landscape")))

    def cell(found):
        return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})".replace("-", "−")

    found = {
        f"{label}, held-out {held_out}": [find(table, measure, figure) for find in (between_settings, within_settings)]
        for measure, label in MEASURES.items()
        for figure, held_out in (("test_error", "errors"), ("test_loss", "loss"))
    }
    corrected_p = holm([within.p for _, within in found.values()])
    for (said, (between, within)), p in zip(found.items(), corrected_p, strict=True):
        yield f"| {said} | {cell(between)} | {cell(within)} | {p:.3f} |"
    by_setting = table.groupby(["configuration", "learning_rate"]).mean(numeric_only=True)
    usual = [
        scipy.stats.spearmanr(by_setting[measure], by_setting[figure]).pvalue
        for measure in MEASURES
        for figure in ("test_error", "test_loss")
    ]
    yield f"−0.59 has p = {usual[1]:.2f}, but {holm(usual)[1]:.2f} after Holm's correction for the four."
    first, added = table[table["seed"] <= 12], table[table["seed"] > 12]
    yield f"the first three, with {cell(within_settings(first, 'sharpness', 'test_error'))}, barely left out 0"
    losses = by_setting["clean_loss"]
    yield (
        f"their means lie between {losses.min():.2f} and {losses.max():.2f}, and their rank correlation with the "
        f"held-out errors is {cell(between_settings(table, 'clean_loss', 'test_error'))}"
    )
    yield f"within settings it is {cell(within_settings(table, 'clean_loss', 'test_error'))}"
    yield f"those added gave {cell(within_settings(added, 'sharpness', 'test_error'))}"
    again = within_settings(sharpness(recorded("landscape-again")), "sharpness", "test_error")
    yield f"**{cell(again)}**, p = {again.p:.3f}"
    yield f"{cell(seeds_again(records, 'clean_loss'))}, which does not decide"


def ten_other_seeds(records):
    compared = {
        "LAMB against SGD with a warm-up, at 1,024": ("+ warm-up", "LAMB"),
        "linear rule against the best learning rate, both with a warm-up": ("+ warm-up", LINEAR),
        "batch 1,024 with a warm-up against batch 64 without": (SMALL_BN, "+ warm-up"),
        "batch 64 with a warm-up against batch 64 without": (SMALL_BN, SMALL_WARM),
        "batch 1,024 against batch 64, both with a warm-up": (SMALL_WARM, "+ warm-up"),
    }
    again = {what: records.gain(*configurations, file=ARMS_AGAIN) for what, configurations in compared.items()}
    for (what, pair), p in zip(again.items(), holm([pair.p for pair in again.values()]), strict=True):
        assert len(pair.differences) == 10
        before = "" if SMALL_WARM in compared[what] else points(records.gain(*compared[what]))
        yield f"| {what} | {before} | {points(pair)} | {'< 0.001' if p < 0.001 else f'{p:.3f}'} |".replace("  ", " ")


def other_configurations(records):
    apart = f"{PAPERS}, biases apart"
    for one, other in ((PAPERS, apart), ("LARS", PAPERS), ("LARS", apart)):
        pair = records.gain(one, other, file="lars-biases")
        yield f"| {other} | {one} | {points(pair)} | {pair.verdict(MARGIN)} |"
    for name, configuration in (("batch 64", SMALL_BN), ("LARS", "LARS"), ("LAMB", "LAMB")):
        pair = records.gain(f"{configuration}, float32", f"{configuration}, bfloat16", file="precision-configurations")
        yield f"| {name} | {points(pair)} | {pair.verdict(MARGIN)} |"


def papers(records):
    lost, to_half = records.gain(SMALL_BN, LINEAR), records.gain(LINEAR, "+ warm-up")
    assert (round(lost.mean), round(to_half.mean)) == (-4, 1) and above(to_half)
    assert records.rate("+ warm-up") * 2 == pytest.approx(records.rate(LINEAR))
    yield "Here it loses 4 points at 1,024, and half its learning rate is better by about one."
    assert not any(above(records.gain("+ warm-up", configuration)) for configuration in ("LARS", "LAMB"))
    yield "Here neither is ahead of SGD with a warm-up and a learning rate of its own"
    steps, epochs = (gap(records, "small batch", f"large batch{how}") for how in (", equal steps", ""))
    closed = Paired(tuple(s - e / 2 for s, e in zip(steps.differences, epochs.differences, strict=True)))
    assert below(steps) and closed.low < 0 < closed.high
    yield "Here they close about half of it."
    assert {pair.verdict(MARGIN) for pair in ghosts(records).values()} <= {"within the margin", "not decided"}
    yield "small ghost batches are better does not show here: within the margin, or not decided."


def challenge_figures(records):
    configurations = defaultdict(list)
    for result in records.results("challenge-times"):
        configurations[result["configuration"]].append(result)
    beside = [result["seconds"] for result in configurations["baseline"]]

    def reached(results):
        score = Score("", tuple(result["private_accuracy"] for result in results))
        return f"{results[0]['samples']:,} | {100 * score.mean:.1f} % ± {100 * score.half_width:.1f}"

    def cost(results):
        ratios = [result["seconds"] / other for result, other in zip(results, beside, strict=True)]
        cpu = statistics.median(result["cpu_seconds"] for result in results)
        return f"{cpu:.0f} | {statistics.median(ratios):.2f}"

    yield f"| the baseline (20 seeds) | {reached(records.results(BASELINE))} | {cost(configurations['baseline'])} |"
    yield f"| the reference | {reached(configurations['reference'])} | {cost(configurations['reference'])} |"
    longer = configurations["longer, in bfloat16"]
    yield f"| the reference, longer, in bfloat16 | {reached(longer)} | {cost(longer)} |"
    one_pass = [result for result in judged_ideas(records) if result["configuration"] == "one pass"]
    yield f"| “one pass”: one epoch of a narrower one, in bfloat16 | {reached(one_pass)} | | |"
    for _, row in ablations(recorded("challenge-ablations"), "one pass").iterrows():
        half = (row["high_points"] - row["low_points"]) / 2
        yield f"{row['trick']} {row['difference_points']:+.1f} ± {half:.1f}".replace("-", "−")


SECTIONS = (
    *(large_batch, critical_batches, critical_batches_all_tuned, generalization_gap, sharpness_ranks),
    *(ten_other_seeds, other_configurations, papers, challenge_figures),
)


@pytest.mark.parametrize("section", SECTIONS)
def test_findings_have_the_figures_of_the_records(section):
    assert [row for row in section(Records()) if row not in FINDINGS] == []


# ---------------------------------------------------------------- the numbers of docs/instructors.md

TEACHING = (ROOT / "docs" / "instructors.md").read_text().split("\n## Numbers to expect\n")[1].split("\n## ")[0]


def ranging(values, form="{:.1f}", unit=""):
    """Return "middle (lowest to highest)"; of accuracies in percent, the mean is the middle."""
    values = list(values)
    middle = statistics.fmean(values) if unit else statistics.median(values)
    low, high = min(values), max(values)
    return f"{form} {unit}({form} to {form})".format(middle, low, high)


def expected(records):
    """Return the ends of the rows that records decide."""
    percent = {
        configuration: ranging(records.configuration(configuration).values(), unit="% ")
        for configuration in (BATCH_1024, "+ warm-up", "LARS", "LAMB")
    }
    points = {
        (result["rate_mbit"], point["variant"]): f"{1000 * point['seconds']['median']:.0f} ms"
        for result in records.results("two-hosts")
        for point in result.get("points", ())
        if point["size_bytes"] == 4 * 2**20
    }
    speed = precisions.pairs(recorded("precision-speed"), "images_per_s")
    baseline = records.results(BASELINE)
    seconds = [
        result["seconds"] for result in records.results("challenge-times") if result["configuration"] == "baseline"
    ]
    return [
        f"1,000 Mbit/s: flat, hierarchical | {points[1000, 'flat']}, {points[1000, 'hierarchical']} |",
        f"100 Mbit/s | {points[100, 'flat']}, {points[100, 'hierarchical']} |",
        f"÷ in float32, 2 ranks | {ranging(speed.ratios, '{:.2f}')} |",
        f"batch 64 | {ranging(records.configuration('small batch + BN').values(), unit='% ')} |",
        f"at batch 1,024, at its best rate | {percent[BATCH_1024]} |",
        f"the same with a warm-up | {percent['+ warm-up']} |",
        f"with LARS | {percent['LARS']} |",
        f"with LAMB | {percent['LAMB']} |",
        f"SGD with momentum, 95 % interval | {records.curve(MOMENTUM).fit} |",
        f"{len(baseline)} seeds; {100 * TARGET:.1f} % is the target | "
        f"{ranging([100 * result['private_accuracy'] for result in baseline], unit='% ')} |",
        f"a run of the baseline | {ranging(seconds, '{:.0f}')} |",
    ]


def test_numbers_for_instructors_were_recorded_or_measured():
    rows = [line for line in TEACHING.splitlines() if re.match(r"\| (all|\d) \|", line)]
    measured = (ROOT / "docs" / "measured.md").read_text().replace("*", "")
    right = expected(Records())
    from_records = {row for row in rows for text in right if text in row}
    assert [text for text in right if not any(text in row for row in rows)] == []
    for row in rows:
        if row not in from_records:
            said = re.split(r"(?<=s), ", row.removesuffix(" |").split(" | ")[2])
            assert all(
                f" {text} " in measured or f"{text} (" in measured or f": {text}" in measured for text in said
            ), row
