"""Benchmark of the predicted step time of train_cifar.py against the measured one, on several ranks.

    python benchmarks/prediction.py            # five repeats, about twelve minutes on two cores without AMX
    python benchmarks/prediction.py --ranks 2 --repeats 3

Each repeat measures in this order: the training (train_cifar.py), computation (step_times.py, with parallel ranks
without communication and with one rank alone), all-reduces (bench_allreduce.py), and the training again. The prediction
from the other measurements is compared with the mean of both trainings. Medians over repeats reduce the influence of
other load. It also compares alternating steps with and without communication in one run, which other load slows
equally, and predicts and trains two more ranks, from all-reduces on this many ranks and one more. Results are printed
and written to --output as JSON.
"""

import argparse
import os
import statistics
from pathlib import Path

from course.shared import cost
from course.topology import prediction
from ddl import launch
from turns import Turns, take_turns

SIZES = [4, 1024, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]


def measure(ranks, batch, steps):
    """Return one repeat's figures in milliseconds, and errors of three predictions."""
    options = {"threads": 1, "oversubscribe": True}

    def train(ranks=ranks, batch=batch):
        samples = {"data_set": "synthetic", "train_samples": 2048, "test_samples": 100, "global_batch": batch}
        return launch("train_cifar.py", workers=ranks, recipe="batch_norm", steps=2 * steps, **samples, **options)

    def all_reduces(ranks):
        return launch("bench_allreduce.py", workers=ranks, operations="all_reduce", sizes=SIZES, **options)

    before = train()
    company = launch("step_times.py", workers=ranks, model="cnn", global_batch=batch, steps=steps, **options)
    bench = all_reduces(ranks)
    alone = launch("step_times.py", workers=1, model="cnn", part=ranks, global_batch=batch, steps=steps, **options)
    trainings = before, train()
    fit = cost.fit(prediction.points(bench), ranks)
    predicted = {
        "one rank alone": prediction.predict_step(alone, fit),
        "in company": prediction.predict_step(company, fit, one=alone),
    }
    tables = [prediction.report(predicted, run).to_dict("records") for run in trainings]
    table = tables[0]
    measured = statistics.mean(rows[0]["measured_ms"] for rows in tables)
    for row in table:
        row |= {"measured_ms": measured, "error": row["predicted_ms"] / measured - 1}
    together = prediction.report(predicted["in company"], company).to_dict("records")[0]
    both = prediction.fit_runs([bench, all_reduces(ranks + 1)])
    cores = company.result["hardware"]["cores"]
    larger = prediction.predict_step(company, both, ranks + 2, one=alone, cores=cores)
    more = prediction.report({"": larger}, train(ranks + 2, larger.batch)).to_dict("records")[0]
    return {
        "alpha_us": 1e6 * fit.alpha_s,
        "gb_per_s": fit.bandwidth_gb_per_s,
        "measured_ms": table[0]["measured_ms"],
        "predicted_alone_ms": table[0]["predicted_ms"],
        "error_alone": table[0]["error"],
        "computation_ms": table[1]["computation_ms"],
        "waiting_ms": table[1]["waiting_ms"],
        "communication_ms": table[1]["communication_ms"],
        "predicted_ms": table[1]["predicted_ms"],
        "error": table[1]["error"],
        "in_turns_ms": together["measured_ms"],
        "error_in_turns": together["error"],
        "more_predicted_ms": more["predicted_ms"],
        "more_measured_ms": more["measured_ms"],
        "more_error": more["error"],
    }


def summary(rows):
    repeats = [row["all"] for row in rows["prediction"]]
    return {"repeats": repeats, "median": {key: statistics.median(row[key] for row in repeats) for key in repeats[0]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("build/prediction.json"))
    options = parser.parse_args()

    os.environ["DDL_VIEW"] = "plain"
    ranks, batch, steps = options.ranks, options.global_batch, options.steps
    show = "predicted {predicted_ms:.2f} ms a step, measured {measured_ms:.2f} ms".format_map
    report = take_turns(
        options.output,
        {"prediction": Turns({"all": lambda: measure(ranks, batch, steps)}, options.repeats, show)},
        summary,
        ranks=ranks,
        global_batch=batch,
        steps=steps,
    )
    middle = report["median"]
    print(f"{ranks} ranks × 1 thread, global batch {batch}, median of {options.repeats}")
    for what, step, error in (
        ("predicted from one rank alone", "predicted_alone_ms", "error_alone"),
        ("predicted from parallel ranks", "predicted_ms", "error"),
        ("measured, alternating with them", "in_turns_ms", "error_in_turns"),
        ("measured, train_cifar.py", "measured_ms", None),
        ("predicted for two ranks more", "more_predicted_ms", "more_error"),
        ("measured, two ranks more", "more_measured_ms", None),
    ):
        errors = [row[error] for row in report["repeats"]] if error else []
        found = f", error {statistics.median(errors):+.0%} ({min(errors):+.0%} to {max(errors):+.0%})" if error else ""
        print(f"{what:32s} {middle[step]:6.2f} ms a step{found}")


if __name__ == "__main__":
    main()
