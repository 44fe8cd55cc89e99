"""Each rank's records of a training script, in which a reader looks for mistakes.

In `bug_hunt.py`, every rank writes ``steps-<k>.jsonl`` (`course.training.rank_log`), which `step_records` reads.
"""

from ddl.display.style import hardware_label
from ddl.errors import InputError
from ddl.records.jsonfiles import read_json_lines


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


def _rank_of(path):
    return int(path.stem.partition("-")[2])


def _step_by_step(step_records):
    """Return every rank's record of each step."""
    return list(zip(*(rank["steps"] for rank in step_records), strict=True))


def _different(values):
    return len(set(values))
