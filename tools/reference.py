"""Record the results that lessons compare with: `make reference`, about nine hours on two cores.

Runs that are done are kept under build/reference/, so an interrupted recording resumes. Results go to
results/reference/, one JSON object a line, with hardware, date, versions, precision and data in it. convergence.py,
sweeps.py and challenge.py say what is compared and how settings are chosen.

`--precision` chooses lesson 4's: with AVX512_BF16 alone, auto takes float32, and on an AMD EPYC bfloat16 was 1.4 times
as fast. `--size smoke` with other folders only checks that the recording works.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import challenge
import convergence
import sweeps
from course.data import DataError, fetch
from course.multi_gpu import mistakes
from course.shared.recorded import recorded as earlier
from course.training import timeline
from course.training.precision import PRECISIONS, choose
from ddl import hosts
from ddl.errors import CourseError
from ddl.records import stack
from lessons import ROOT
from recordings import Recordings, Trainings

SIZES = {
    "reader": dict(train_samples=10_000, test_samples=10_000, epochs=8),
    "smoke": dict(train_samples=2_048, test_samples=500, epochs=2),
}

# For each rate of the link, in Mbit/s (0: none): the largest message that takes no minutes.
LINKS = {"reader": {0: 2**24, 1000: 2**24, 100: 2**22}, "smoke": {1000: 2**12}}
# The same seeds in both precisions; speed is measured in consecutive pairs.
PAIRS = {"reader": dict(seeds=range(5), pairs=5, steps=24), "smoke": dict(seeds=range(1), pairs=1, steps=4)}
MEMORY = {"reader": [(384, 6), (512, 6), (640, 6), (768, 8), (1024, 6)], "smoke": [(32, 1)]}  # width and depth
MESSAGES = {"reader": dict(seeds=range(5), steps=800), "smoke": dict(seeds=range(1), steps=16)}
WAYS = (  # of exchanging: how many bytes are sent is up to them
    ("all-reduce", dict(method="all-reduce")),
    *((f"local, every {every}", dict(method="local", every=every)) for every in (4, 16, 64)),
    ("DiLoCo, every 16", dict(method="diloco", every=16)),
    ("int8", dict(method="int8")),
    ("int8, no feedback", dict(method="int8", no_feedback=True)),
    ("top 1 %", dict(method="top-k", share=0.01)),
    ("top 1 %, no feedback", dict(method="top-k", share=0.01, no_feedback=True)),
)
KERAS_SEEDS = {"reader": range(5), "smoke": range(1)}
STEPS = {"reader": dict(widths=[8, 32], steps=40), "smoke": dict(widths=[4], steps=5)}


def main():
    table = "\n".join(
        f"  {name:22} lesson {part.lesson}, {part.minutes:3} minutes: {part.what}" for name, part in PARTS.items()
    )
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\nexperiments:\n{table}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, metavar="EXPERIMENT")
    parser.add_argument("--size", choices=SIZES, default="reader")
    parser.add_argument("--data-set", default="cifar10")
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="of lesson 4's trainings")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reference")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "reference")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else PARTS:
        part = PARTS[name]
        if not options.only and part.stack != stack.name():
            continue
        if part.bfloat16:
            choose("bfloat16")  # raises an error now if the processor can't
        for file, results in part.record(options):
            path = options.results / f"{file}.jsonl"
            path.write_text("".join(json.dumps(result) + "\n" for result in results))
            print(f"{len(results)} results in {path}")


# ---------------------------------------------------------------- lesson 4; earlier rates are kept with the course


def rates_to_a_loss():
    """Return the rates that were chosen for `generalization`, by batch."""
    return {
        run.result["global_batch"]: run.result["config"]["learning_rate"]
        for run in earlier("generalization")
        if run.name in ("small batch, to a loss", "large batch, to a loss")
    }


def rates_of_arms():
    """Return the rates that arms were judged at in `convergence`, by name."""
    return {run.name: run.result["config"]["learning_rate"] for run in earlier("convergence-cifar10")}


def lesson_4(file, experiment, rates=None):
    """Return a function that records one of convergence.py's experiments, at rates that were chosen before."""

    def record(options):
        yield file, experiment(*trainings(options), *([rates()] if rates else []))

    return record


def record_convergence(options):
    make, size = trainings(options)
    rates, tuning = convergence.tune_arms(make, size)
    yield "convergence-tuning", tuning
    print("best rates at the reference batch:", ", ".join(f"{arm} {rate:g}" for arm, rate in rates.items()))
    yield "convergence-cifar10", convergence.judge_arms(make, size, rates)


def critical_batches(make, size):
    return [result for optimizer in sweeps.OPTIMIZERS for result in sweeps.sweep(make, size, optimizer)]


def tuned_critical_batches(make, size):
    results = []
    for optimizer in sweeps.OPTIMIZERS:
        before = [run.result for run in earlier("critical-batch") if run.result["arm"] == optimizer]
        results += sweeps.tuned_sweep(make, size, optimizer, sweeps.best_rates(before))
    return results


def ghost_batches(make, size):
    rates, _ = convergence.tune_arms(make, size)  # cached if the arms are
    return convergence.ghost_batches(make, size, rates["+ warm-up"])


def noise(make, size):
    # At the rate that the search for the critical batch size found for this batch.
    rates = sweeps.best_rates(sweeps.sweep(make, size, "SGD with momentum"))
    batch = min(256, max(rates))
    return convergence.noise_runs(make, size, batch, rates[batch])


def trainings(options):
    """Return the recorder of lesson 4's runs, and their size."""
    need_data(options)
    make = Trainings(options.work / "convergence", data_set=options.data_set, precision=options.precision)
    return make, convergence.SIZES[options.size]


# ---------------------------------------------------------------- lesson 5


def record_challenge_baseline(options):
    make, size = scored(options)
    yield "challenge-baseline", make.accuracies([challenge.BASELINE], range(size.baseline), challenge.WORKERS)
    generated = challenge.Scored(options.work / "challenge", "synthetic", size.trial)
    yield "challenge-generated", generated.times([challenge.BASELINE], range(size.generated))


def record_challenge(options):
    make, size = scored(options)
    few, seeds = size.arms, range(size.others)
    yield "challenge-times", make.times(challenge.TIMED[: few and few + 1], seeds)
    arms = challenge.ONE_PASS[: few and few + 1]
    found = make.together(lambda arm: make.tune(arm, size.tuning), arms)
    tuning = [result for _, results in found for result in results]
    judged = make.accuracies([arm for arm, _ in found], seeds)
    yield "challenge-ablations", tuning + [{**run, "role": "judged"} for run in judged]


def scored(options):
    """Return the recorder of lesson 5's runs, and their size."""
    need_data(options)
    size = challenge.SIZES[options.size]
    return challenge.Scored(options.work / "challenge", options.data_set, size.trial), size


def need_data(options):
    try:
        fetch(options.data_set)
    except DataError as error:
        sys.exit(f"the results are measured on {options.data_set}: {error}")


# ---------------------------------------------------------------- lessons 2, 3 and 6


def recorded(make, script, name, *key, facts=lambda run: {}, **settings):
    """Return a run's cached result with further `facts`; `key` distinguishes it from others of this script."""

    def result():
        load = os.getloadavg()[0]
        print(f"{script}: {name}", flush=True)
        run = make.finished(script, name, **settings)
        return {**run.result, **facts(run), "load_before": load}

    return make.kept([script, name, *key], result)


def files_of(*pairs):
    """Return a function that records files, pairs of a name and the function that makes its results."""
    return lambda options: ((file, make(options)) for file, make in pairs)


def precision_runs(options):
    """Train in both precisions, the same seeds."""
    need_data(options)
    make = Recordings(options.work / "precision")
    settings = dict(recipe="warmup", global_batch=512, data_set=options.data_set, workers=2, threads=1)
    return [
        recorded(
            make, "train_cifar.py", each, "seed", seed, precision=each, seed=seed, **settings, **SIZES[options.size]
        )
        for seed in PAIRS[options.size]["seeds"]
        for each in convergence.BOTH
    ]


def speed_runs(options):
    """Take steps in both precisions alternately, several times."""
    make, many = Recordings(options.work / "precision"), PAIRS[options.size]
    settings = dict(recipe="warmup", global_batch=1024, steps=many["steps"], timeline=True, workers=2, threads=1)
    settings |= dict(data_set="synthetic", train_samples=10_000, test_samples=500)

    def facts(run):
        return {"sent": timeline.sent(run.folder / timeline.FILE)}

    return [
        {**recorded(make, "train_cifar.py", each, "pair", pair, facts=facts, precision=each, **settings), "pair": pair}
        for pair in range(many["pairs"])
        for each in convergence.BOTH
    ]


def memory_runs(options):
    """Train the transformer in several sizes and each of ZeRO's stages."""
    make = Recordings(options.work / "sharding", jobs=2)
    settings = dict(batch=2, length=32, steps=3, workers=2, threads=1)
    return [
        recorded(
            make, "train_transformer.py", f"{width} × {depth}, stage {stage}", width, depth, stage,
            width=width, depth=depth, stage=stage, **settings,
        )
        for width, depth in MEMORY[options.size]
        for stage in range(4)
    ]  # fmt: skip


def message_runs(options):
    """Train with fewer and fewer bytes between two ranks, the same seeds."""
    make, size = Recordings(options.work / "sharding", jobs=2), MESSAGES[options.size]
    return [
        recorded(
            make, "few_messages.py", name, "seed", seed, seed=seed, steps=size["steps"], workers=2, threads=1, **way
        )
        for seed in size["seeds"]
        for name, way in WAYS
    ]


def keras_runs(options):
    """Train with Horovod's optimizer on Keras 2 and on Keras 3, the same seeds."""
    make = Recordings(options.work / "keras")

    def facts(run):
        return {"witnesses": mistakes.witnesses(run)}

    return [
        recorded(
            make, "bug_hunt_fit.py", f"Keras {keras}", seed, facts=facts, keras=keras, seed=seed, workers=2, threads=1
        )
        for seed in KERAS_SEEDS[options.size]
        for keras in (2, 3)
    ]


def two_host_runs(options):
    """Run the experiments on two hosts: all-reduces and training steps."""
    if reason := hosts.permitted():
        sys.exit(f"two hosts cannot be made on this machine: {reason}. --only convergence records lesson 4's results")
    make = Recordings(options.work / "two-hosts")
    links, steps = LINKS[options.size], STEPS[options.size]
    wanted = [
        ("hierarchical_allreduce.py", rate, dict(workers=4, nodes=2, max_bytes=most, seconds=4.0))
        for rate, most in links.items()
    ]
    # With one rank per host, it would get all cores, so limit it to one thread.
    wanted += [
        ("step_times.py", rate, dict(workers=2, nodes=1 if rate is None else 2, threads=1, **steps))
        for rate in (None, *links)
    ]
    results = []
    for script, rate, settings in wanted:
        link = "no limit" if rate == 0 else f"{rate} Mbit/s"
        name = "one host" if rate is None else f"two hosts, {link}"
        arguments = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        command = f"launch({script!r}, {arguments}, site=hosts.site({rate or 0}))"
        facts = {"rate_mbit": rate, "command": command}
        settings["site"] = hosts.site(rate or 0)
        results.append(recorded(make, script, name, facts=lambda run, facts=facts: facts, **settings))
    return results


@dataclass(frozen=True)
class Part:
    """One experiment. `record` takes the options and yields the name of each file of results, and the results."""

    lesson: int
    minutes: int  # on two cores
    what: str
    record: Callable
    bfloat16: bool = False  # whether it needs a processor with instructions for it
    stack: str = "default"


PARTS = {
    "two-hosts": Part(
        2, 5, "all-reduces and steps over links of several rates", files_of(("two-hosts", two_host_runs))
    ),
    "precision": Part(
        3,
        15,
        "float32 against bfloat16: accuracy with the same seeds, then images/s in turns",
        files_of(("precision", precision_runs), ("precision-speed", speed_runs)),
        bfloat16=True,
    ),
    "keras": Part(
        3,
        2,
        "Horovod under Keras 2 and Keras 3, where ranks drift apart",
        files_of(("keras", keras_runs)),
        stack="next",
    ),
    "convergence": Part(4, 75, "its arms, each at the rate that its own grid chose", record_convergence),
    "arms-again": Part(
        4, 45, "small effects, with other seeds", lesson_4("arms-again", convergence.arms_again, rates_of_arms)
    ),
    "precision-arms": Part(
        4,
        15,
        "three arms in both precisions",
        lesson_4("precision-arms", convergence.in_both_precisions, rates_of_arms),
        bfloat16=True,
    ),
    "critical-batch": Part(4, 75, "steps to a target against the batch", lesson_4("critical-batch", critical_batches)),
    "critical-batch-tuned": Part(
        4, 150, "the same with momentum and warm-up tuned", lesson_4("critical-batch-tuned", tuned_critical_batches)
    ),
    "generalization": Part(
        4, 45, "the search for a generalization gap", lesson_4("generalization", convergence.generalization)
    ),
    "equal-loss-again": Part(
        4,
        20,
        "its arms of equal loss, with ten other seeds",
        lesson_4("equal-loss-again", convergence.to_a_loss_again, rates_to_a_loss),
    ),
    "sharpness": Part(4, 60, "sharpness at equal loss", lesson_4("landscape", convergence.sharpness, rates_to_a_loss)),
    "sharpness-again": Part(
        4,
        60,
        "one of its results, with eight other seeds",
        lesson_4("landscape-again", convergence.sharpness_confirmed, rates_to_a_loss),
    ),
    "lars-biases": Part(
        4, 15, "LARS with a rate of the biases' own", lesson_4("lars-biases", convergence.lars_biases, rates_of_arms)
    ),
    "ghost-batches": Part(4, 10, "batch norm over 32 to 1,024 images", lesson_4("ghost-batches", ghost_batches)),
    "noise": Part(4, 10, "the noise scale at fixed weights", lesson_4("noise-frozen", noise)),
    "challenge-baseline": Part(
        5, 60, "the baseline on twenty seeds, and on ten with generated images", record_challenge_baseline
    ),
    "challenge": Part(
        5,
        90,
        "baseline and reference in turns; the reference without each of its tricks, tuned",
        record_challenge,
        bfloat16=True,
    ),
    "sharding": Part(
        6,
        15,
        "a rank's memory by size and ZeRO stage; what fewer bytes cost in loss",
        files_of(("sharding-memory", memory_runs), ("few-messages", message_runs)),
    ),
}


if __name__ == "__main__":
    try:
        main()
    except CourseError as error:
        sys.exit(f"reference.py: {error}")
