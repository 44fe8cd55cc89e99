"""Record the results that lessons compare with: `make reference`, about nine hours on two cores.

For lesson 2 (`--only two-hosts`, five minutes): this machine as two hosts, for readers who may not
make any; all-reduce in several ways, and training steps, over links of several rates.

For lesson 3 (`--only precision`, fifteen minutes): float32 against bfloat16, if the processor has instructions for it;
accuracy in pairs with the same seed, then images/s in pairs one after the other.

For lesson 3 on the next stack (`make reference STACK=next` records this only; two minutes): Horovod under Keras 2 and
under Keras 3, where ranks drift apart (`--only keras`).

For lesson 4, on CIFAR-10, the experiments of convergence.py and sweeps.py: the arms of its comparison, each with the
rate that its own grid chose (`--only convergence`, an hour and a quarter), what holds by little once more with other
seeds (`--only arms-again`, three quarters of an hour), and in both precisions (`--only precision-arms`, a quarter of an
hour); steps to a target against the batch (`--only critical-batch`, an hour and a quarter), and with momentum and
warm-up tuned as well (`--only critical-batch-tuned`, two hours and a half); the search for a generalization gap
(`--only generalisation`, three quarters of an hour), its arms of equal loss with ten other seeds (`--only
equal-loss-again`, twenty minutes), and sharpness at equal loss (`--only sharpness`, an hour); LARS with a rate of the
biases' own (`--only lars-biases`, a quarter of an hour); batch norm over 32 to 1,024 images (`--only ghost-batches`),
and the noise scale at fixed weights (`--only noise`; ten minutes each).

For lesson 6 (`--only sharding`, a quarter of an hour): a rank's memory at several sizes in each of
ZeRO's stages, and what fewer bytes cost in loss, the same seeds for each way of exchanging.

For lesson 5: the baseline on twenty seeds, and on ten with generated images (`--only challenge-baseline`, an hour); and
(`--only challenge`, an hour and a quarter) baseline and reference in turns, with their times, and one pass of the
reference without each of its tricks, all with rate and momentum tuned.

Runs that are done are kept under build/reference/, so an interrupted recording resumes. Written to
results/reference/: one result.json a line, with hardware, date, versions, precision and data in it. `--precision`
chooses lesson 4's: with AVX512_BF16 alone, auto takes float32, and on an AMD EPYC bfloat16 was 1.4 times as fast.

`--size smoke` with other folders only checks that the recording works.
"""

import argparse
import json
import os
import sys
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--size", choices=SIZES, default="reader")
    parser.add_argument("--data-set", default="cifar10")
    parser.add_argument("--precision", choices=PRECISIONS, default="auto", help="of lesson 4's trainings")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reference")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "reference")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.results.mkdir(parents=True, exist_ok=True)
    for part in [options.only] if options.only else PARTS_OF[stack.name()]:
        PARTS[part](options)


def record_two_hosts(options):
    if reason := hosts.permitted():
        sys.exit(f"two hosts cannot be made on this machine: {reason}. --only convergence records lesson 4's results")
    keep(options.results / "two-hosts.jsonl", two_host_runs(options))


def record_precision(options):
    choose("bfloat16")  # raises an error now if the processor can't
    keep(options.results / "precision.jsonl", precision_runs(options))
    keep(options.results / "precision-speed.jsonl", speed_runs(options))


def record_sharding(options):
    keep(options.results / "sharding-memory.jsonl", memory_runs(options))
    keep(options.results / "few-messages.jsonl", message_runs(options))


def record_keras(options):
    keep(options.results / "keras.jsonl", keras_runs(options))


def record_convergence(options):
    make, size = recordings(options)
    rates, tuning = convergence.tune_arms(make, size)
    keep(options.results / "convergence-tuning.jsonl", tuning)
    print("best rates at the reference batch:", ", ".join(f"{arm} {rate:g}" for arm, rate in rates.items()))
    keep(options.results / "convergence-cifar10.jsonl", convergence.judge_arms(make, size, rates))


def record_critical_batch(options):
    make, size = recordings(options)
    results = [result for optimizer in sweeps.OPTIMIZERS for result in sweeps.sweep(make, size, optimizer)]
    keep(options.results / "critical-batch.jsonl", results)


def record_critical_batch_tuned(options):
    make, size = recordings(options)
    results = []
    for optimizer in sweeps.OPTIMIZERS:
        before = [run.result for run in earlier("critical-batch") if run.result["arm"] == optimizer]
        results += sweeps.tuned_sweep(make, size, optimizer, sweeps.best_rates(before))
    keep(options.results / "critical-batch-tuned.jsonl", results)


def record_generalisation(options):
    make, size = recordings(options)
    keep(options.results / "generalisation.jsonl", convergence.generalisation(make, size))


def record_equal_loss_again(options):
    make, size = recordings(options)
    keep(options.results / "equal-loss-again.jsonl", convergence.to_a_loss_again(make, size, rates_to_a_loss()))


def record_sharpness(options):
    make, size = recordings(options)
    keep(options.results / "landscape.jsonl", convergence.sharpness(make, size, rates_to_a_loss()))


def rates_to_a_loss():
    """Return the rates that were chosen for `generalisation`, as it is kept with the course, by batch."""
    return {
        run.result["global_batch"]: run.result["config"]["learning_rate"]
        for run in earlier("generalisation")
        if run.name in ("small batch, to a loss", "large batch, to a loss")
    }


def rates_of_arms():
    """Return the rates that arms were judged at in `convergence`, as it is kept with the course, by name."""
    return {run.name: run.result["config"]["learning_rate"] for run in earlier("convergence-cifar10")}


def record_arms_again(options):
    make, size = recordings(options)
    keep(options.results / "arms-again.jsonl", convergence.arms_again(make, size, rates_of_arms()))


def record_lars_biases(options):
    make, size = recordings(options)
    keep(options.results / "lars-biases.jsonl", convergence.lars_biases(make, size, rates_of_arms()))


def record_precision_arms(options):
    choose("bfloat16")  # a half of it; raises an error now if the processor can't
    make, size = recordings(options)
    keep(options.results / "precision-arms.jsonl", convergence.in_both_precisions(make, size, rates_of_arms()))


def record_ghost_batches(options):
    make, size = recordings(options)
    rates, _ = convergence.tune_arms(make, size)  # cached if the arms are
    keep(options.results / "ghost-batches.jsonl", convergence.ghost_batches(make, size, rates["+ warm-up"]))


def record_noise(options):
    make, size = recordings(options)
    # At the rate that the search for the critical batch size found for this batch.
    rates = sweeps.best_rates(sweeps.sweep(make, size, "SGD with momentum"))
    batch = min(256, max(rates))
    keep(options.results / "noise-frozen.jsonl", convergence.noise_runs(make, size, batch, rates[batch]))


def record_challenge_baseline(options):
    make, size = scored(options)
    baselines = make.accuracies([challenge.BASELINE], range(size.baseline), challenge.WORKERS)
    keep(options.results / "challenge-baseline.jsonl", baselines)
    generated = challenge.Scored(options.work / "challenge", "synthetic", size.trial)
    keep(options.results / "challenge-generated.jsonl", generated.times([challenge.BASELINE], range(size.generated)))


def record_challenge(options):
    choose("bfloat16")  # a part of it; raises an error now if the processor can't
    make, size = scored(options)
    few, seeds = size.arms, range(size.others)
    keep(options.results / "challenge-times.jsonl", make.times(challenge.TIMED[: few and few + 1], seeds))
    arms = challenge.ONE_PASS[: few and few + 1]
    found = make.together(lambda arm: make.tune(arm, size.tuning), arms)
    tuning = [result for _, results in found for result in results]
    judged = make.accuracies([arm for arm, _ in found], seeds)
    keep(options.results / "challenge-ablations.jsonl", tuning + [{**run, "role": "judged"} for run in judged])


def scored(options):
    """Return the recorder of lesson 5's runs, and their size."""
    need_data(options)
    size = challenge.SIZES[options.size]
    return challenge.Scored(options.work / "challenge", options.data_set, size.trial), size


def recordings(options):
    """Return the recorder of lesson 4's runs, and their size."""
    need_data(options)
    make = Trainings(options.work / "convergence", data_set=options.data_set, precision=options.precision)
    return make, convergence.SIZES[options.size]


def need_data(options):
    try:
        fetch(options.data_set)
    except DataError as error:
        sys.exit(f"the results are measured on {options.data_set}: {error}")


def recorded(make, script, name, *key, facts=lambda run: {}, **settings):
    """Return a run's cached result with further `facts`; `key` distinguishes it from others of this script."""

    def result():
        load = os.getloadavg()[0]
        print(f"{script}: {name}", flush=True)
        run = make.finished(script, name, **settings)
        return {**run.result, **facts(run), "load_before": load}

    return make.kept([script, name, *key], result)


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


PARTS = {
    "two-hosts": record_two_hosts,
    "precision": record_precision,
    "sharding": record_sharding,
    "keras": record_keras,
    "convergence": record_convergence,
    "critical-batch": record_critical_batch,
    "critical-batch-tuned": record_critical_batch_tuned,
    "generalisation": record_generalisation,
    "equal-loss-again": record_equal_loss_again,
    "sharpness": record_sharpness,
    "arms-again": record_arms_again,
    "lars-biases": record_lars_biases,
    "precision-arms": record_precision_arms,
    "ghost-batches": record_ghost_batches,
    "noise": record_noise,
    "challenge-baseline": record_challenge_baseline,
    "challenge": record_challenge,
}


# Default recordings of each stack: Keras 3 on the next one, everything else on the default.
PARTS_OF = {"default": [part for part in PARTS if part != "keras"], "next": ["keras"]}


def keep(path, results):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    print(f"{len(results)} results in {path}")


if __name__ == "__main__":
    try:
        main()
    except CourseError as error:
        sys.exit(f"reference.py: {error}")
