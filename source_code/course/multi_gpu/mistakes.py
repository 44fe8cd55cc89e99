"""Detection of mistakes in a training script from each rank's records.

In `bug_hunt.py`, every rank writes ``steps-<k>.jsonl`` (`course.training.rank_log`), which `step_records` reads. A
check takes that list, and returns whether it found its mistake and a sentence about the records; `examine` runs all
checks.
"""

import math

from ddl.display.style import hardware_label
from ddl.errors import InputError
from ddl.records.jsonfiles import read_json_lines
from ddl.text import plural


def step_records(run) -> list[dict]:
    """Return each rank's records of a run of `bug_hunt.py`, in order::

        {"rank": 0, "ranks": 2, "batch": 32, "rate_of_one_rank": 0.05, "weights": "1a2b3c4d",
         "steps": [{"step": 1, "samples": [5, 17, …], "rate": 0.1, "update": "…", "weights": "…"}, …],
         "samples_counted": 640, "seconds": 0.4, "images_per_s": 3200.0, "wrote": "weights.npz"}

    ``weights`` and ``update`` are checksums of the weights and of the applied gradients. ``samples`` are the numbers of
    the rank's training samples, ``samples_counted`` is the count that it reports, ``wrote`` the file with its weights,
    or None.

    Raises InputError if there are none or one is incomplete, because the script failed or does not write them.
    """
    if getattr(run, "recorded", False) and "step_records" in run.result:
        return run.result["step_records"]
    paths = sorted(run.folder.glob("steps-*.jsonl"), key=_rank_of)
    seen = []
    for path in paths:
        of = {"begin": [], "step": [], "end": []}
        for line in read_json_lines(path):
            of[line["event"]].append({key: value for key, value in line.items() if key != "event"})
        if not (of["begin"] and of["end"]):
            raise InputError(f"{path}: its rank did not finish; see rank-{_rank_of(path)}.log next to it")
        seen.append({**of["begin"][0], "steps": of["step"], **of["end"][0]})
    ranks = seen[0]["ranks"] if seen else run.job.get("workers", "any")
    if len(seen) != ranks:
        raise InputError(
            f"{run.folder} has {len(seen)} step records, of {ranks} ranks: did a run of bug_hunt.py finish here?"
        )
    return seen


def excerpt(run, steps: int = 2):
    """Return the first `steps` of each rank's records as a data frame with a row for each step and rank."""
    rows = []
    for rank in step_records(run):
        for step in rank["steps"][:steps]:
            first = ", ".join(map(str, step["samples"][:3]))
            rows.append(
                {
                    "step": step["step"],
                    "rank": rank["rank"],
                    "samples": f"{first}, … ({len(step['samples'])})",
                    "rate": step["rate"],
                    "began with": rank["weights"],
                    "update": step["update"],
                    "weights after": step["weights"],
                    "counted in all": rank["samples_counted"],
                    "wrote": rank["wrote"] or "–",
                }
            )
    import pandas  # slow to import, and only needed here

    return pandas.DataFrame(rows).sort_values(["step", "rank"], ignore_index=True)


def outcomes(runs):
    """Tabulate runs of `bug_hunt_fit.py`: final results, and steps in which ranks made different updates."""
    from ddl.display.table import Table  # with pandas

    rows = []
    for run in runs:
        steps = _step_by_step(step_records(run))
        apart = sum(_different(rank["update"] for rank in step) > 1 for step in steps)
        rows.append(
            {
                "run": (run.name, "run", "s"),
                "seed": (run.result["seed"], "seed", "d"),
                "state": (run.state, "ended", "s"),
                "first_loss": (run.result["first_loss"], "first loss", ".3f"),
                "loss": (run.result["loss"], "mean loss", ".3f"),
                "test_accuracy": (run.result["test_accuracy"], "rank 0's held-out accuracy", ".1%"),
                "steps": (len(steps), "steps", "d"),
                "apart": (apart, "steps with different updates", "d"),
                "models": (_different(rank["weights"] for rank in steps[-1]), "models at the end", "d"),
            }
        )
    first = runs[0].result
    where = f"{hardware_label(first['hardware'])}, {first['ranks']} ranks."
    if runs[0].recorded:
        versions = f"TensorFlow {first['versions']['tensorflow']}, Horovod {first['versions']['horovod']}"
        where = f"Recorded on {first['finished'][:10]} with {versions}, on {where}"
    return Table.of(rows, where)


# ---------------------------------------------------------------- checks


def own_samples(step_records: list[dict]) -> tuple[bool, str]:
    """Look for samples that several ranks trained on in the same step."""
    steps = [[set(step["samples"]) for step in ranks] for ranks in _step_by_step(step_records)]
    every = sum(len(part) for parts in steps for part in parts)
    different = sum(len(set().union(*parts)) for parts in steps)
    return different < every, (
        f"in {len(steps)} steps the ranks trained on {every:,} samples; counted once a step, "
        f"{different:,} were different ones"
    )


def began_alike(step_records: list[dict]) -> tuple[bool, str]:
    """Look for ranks whose initial weights differ from rank 0's."""
    models = _different(rank["weights"] for rank in step_records)
    return models > 1, f"before the first step {len(step_records)} ranks have {plural(models, 'different model')}"


def applied_alike(step_records: list[dict]) -> tuple[bool, str]:
    """Look for steps in which ranks apply different gradients, so that their models diverge."""
    steps = _step_by_step(step_records)
    apart = [step[0]["step"] for step in steps if _different(rank["update"] for rank in step) > 1]
    models = _different(rank["weights"] for rank in steps[-1])
    where = f", first in step {apart[0]}" if apart else ""
    return bool(apart), (
        f"in {len(apart)} of {len(steps)} steps the ranks applied different gradients{where}; at "
        f"the end there {'are' if models > 1 else 'is'} {plural(models, 'model')}"
    )


def counted_once(step_records: list[dict]) -> tuple[bool, str]:
    """Look for a throughput based on more samples than the ranks trained on."""
    counted = sum(rank["samples_counted"] for rank in step_records)
    processed = sum(len(step["samples"]) for rank in step_records for step in rank["steps"])
    return counted != processed, (
        f"the ranks counted {counted:,} samples and trained on {processed:,}: the throughput is "
        f"{counted / processed:.3g} times the true one"
    )


def scaled_rate(step_records: list[dict]) -> tuple[bool, str]:
    """Look for steps without the linearly scaled learning rate (Goyal et al. 2017, section 2.1)."""
    one, wanted = step_records[0]["rate_of_one_rank"], step_records[0]["rate_of_one_rank"] * len(step_records)
    rates = {step["rate"] for rank in step_records for step in rank["steps"]}
    used = " to ".join(f"{rate:.4g}" for rate in sorted({min(rates), max(rates)}))
    # The optimizer stores it in float32.
    return not all(math.isclose(rate, wanted, rel_tol=1e-5) for rate in rates), (
        f"{len(step_records)} × {one:.4g} = {wanted:.4g} is the scaled learning rate; {used} was used"
    )


def one_writer(step_records: list[dict]) -> tuple[bool, str]:
    """Look for a file that a rank other than rank 0 writes."""
    writers = [rank["rank"] for rank in step_records if rank["wrote"]]
    names = " and ".join(sorted({rank["wrote"] for rank in step_records if rank["wrote"]}))
    who = ", ".join(map(str, writers)) or "none"
    return any(writers), f"{names or 'the weights'} was written by rank{'s' * (len(writers) > 1)} {who}"


CHECKS = {
    "ranks share samples": own_samples,
    "ranks begin differently": began_alike,
    "ranks drift apart": applied_alike,
    "throughput miscounted": counted_once,
    "learning rate not scaled": scaled_rate,
    "more than rank 0 writes": one_writer,
}


def _rank_of(path):
    return int(path.stem.partition("-")[2])


def _step_by_step(step_records):
    """Return every rank's record of each step."""
    return list(zip(*(rank["steps"] for rank in step_records), strict=True))


def _different(values):
    return len(set(values))


def examine(run):
    """Tabulate the checks of a run of `bug_hunt.py`; ``found`` lists its mistakes."""
    from ddl.display.table import Table  # with pandas

    seen = step_records(run)
    rows = []
    for mistake, check in CHECKS.items():
        found, sentence = check(seen)
        rows.append(
            {
                "found": found,
                "result": ("✗ found" if found else "✓ right", "result", "s"),
                "mistake": (mistake, "mistake", "s"),
                "evidence": (sentence, "what the records show", "s"),
            }
        )
    return Table.of(rows, run.name)
