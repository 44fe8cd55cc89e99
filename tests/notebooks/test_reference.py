"""The recorded results: what they hold, and that they can be recorded again."""

import collections
import statistics
import subprocess
import sys
import tomllib

import pytest
from scipy.stats import nct, t

import reference
from course import critical, precisions, recorded, tuning
from course.challenge.rules import ALPHA, RUNS, TARGETS
from course.challenge.submission import BASELINE, sha256
from course.training.precision import instructions
from course.training.recipes import OPTIMIZERS, RECIPES, scaled
from ddl.records.jsonfiles import read_json_lines
from helpers import ROOT

EXPERIMENTS = tomllib.loads((ROOT / "tools" / "experiments.toml").read_text())


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Return a function that records two short runs of each of an experiment's files; returns what it prints."""
    monkeypatch.delenv("DDL_WARM", raising=False)  # short runs, many of them

    def run(name, status=0):
        command = [sys.executable, ROOT / "tools" / "reference.py", "--only", name, "--smoke", "--work", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_each_recorded_run_can_be_taken_again():
    listed = {file for each in EXPERIMENTS.values() for file in each["files"]}
    assert listed <= {path.stem for path in reference.RECORDS.glob("*.jsonl")}
    for name, experiment in EXPERIMENTS.items():
        for file in experiment["files"]:
            runs = reference.wanted(experiment, file, smoke=False)
            assert len(runs) == len(results_of(file)), name
            assert all(run.workers >= 1 for run in runs)


def test_differences_are_paired_by_run():
    before = [{"name": name, "seed": seed, "x": seed + 0.5} for name in "ab" for seed in range(3)]
    again = [{**row, "x": row["x"] + 1} for row in before[::-1] if row["seed"]]
    assert reference.compared(again, before, "x") == "x, again − recorded: +1 ± 0 (4 pairs)"
    assert reference.compared(again, before, "y") == "y: nothing to compare"


def test_recorded_figures_are_rounded():
    assert reference.rounded({"a": 0.123456789, "b": 1234567, "c": [1e-9 / 3]}) == {
        "a": 0.123457, "b": 1234567, "c": [3.33333e-10]
    }  # fmt: skip


@pytest.mark.nightly("tools/*.py", "tools/experiments.toml")
def test_recording_keeps_what_is_done_and_resumes(tmp_path, record):
    assert "\n2 results" in record("ghost-batches")
    ghosts = read_json_lines(tmp_path / "results" / "ghost-batches.jsonl")
    assert len(ghosts) == 2 and all(result["test_accuracy"] > 0 for result in ghosts)
    assert not any(result["train_seconds"] for result in ghosts)  # recorded side by side
    runs = tmp_path / "ghost-batches" / "runs"
    before = sorted(runs.iterdir())
    kept = sorted((tmp_path / "ghost-batches").glob("*.json"))
    kept[0].unlink()
    record("ghost-batches")
    assert len(set(runs.iterdir()) - set(before)) == 1


@pytest.mark.nightly("tools/*.py", "tools/experiments.toml")
def test_recording_precision_makes_pairs_and_refuses_other_processors(tmp_path, record):
    if not instructions():
        assert "neither amx_bf16 nor avx512_bf16" in record("precision", status=1)
        return
    record("precision")
    record("precision-speed")
    for name in ("precision", "precision-speed"):
        results = read_json_lines(tmp_path / "results" / f"{name}.jsonl")
        assert [result["precision"] for result in results] == ["float32", "bfloat16"]
    assert all(result["images_per_s"] > 0 and result["sent"] for result in results)  # one at a time


@pytest.mark.nightly("tools/*.py", "tools/experiments.toml")
@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if name not in ("ghost-batches", "precision", "precision-speed", "keras")]
)
def test_other_experiments_can_be_recorded(name, record):
    if EXPERIMENTS[name].get("bfloat16") and not instructions():
        return
    assert "\n2 results" in record(name)


def results_of(name):
    return read_json_lines(ROOT / "results" / "reference" / f"{name}.jsonl")


TRAININGS = (
    *("convergence-cifar10", "convergence-tuning", "critical-batch", "critical-batch-tuned", "convergence-again"),
    *("lars-biases", "generalization", "equal-loss-again", "ghost-batches"),
)
LANDSCAPES = ("landscape", "landscape-again", "noise-frozen")


CHALLENGE = ("challenge-baseline", "challenge-ablations", "challenge-times", "challenge-generated")
SCRIPTS = dict.fromkeys(LANDSCAPES, "landscape.py") | dict.fromkeys(CHALLENGE, "train_submission.py")
SCRIPTS |= {"keras": "bug_hunt_fit.py", "challenge-generated": "trainer.py"}


@pytest.mark.parametrize("name", [*TRAININGS, *LANDSCAPES, "precision", "precision-speed", "keras", *CHALLENGE])
def test_recorded_results_name_their_origin(name):
    results = results_of(name)
    assert results
    for result in results:
        assert result["data"]["form"] and result["hardware"]["cpu"] and result["finished"]
        assert result["versions"]["tensorflow"] and result["versions"]["horovod"]
        # no path of the machine that recorded it
        assert result["script"] == SCRIPTS.get(name, "train_cifar.py")
        assert "/" not in " ".join(result.get("argv", ()))


@pytest.mark.parametrize("name", [*TRAININGS, *LANDSCAPES])
def test_compared_runs_share_precision_and_machine(name):
    results = results_of(name)
    for key in ("precision", "versions", "hardware", "parameters"):
        values = [result.get(key) for result in results if (key != "parameters" or result.get("recipe") != "base")]
        assert all(value == values[0] for value in values), key
    if name in TRAININGS:  # recorded side by side, so without times
        assert not any(result["images_per_s"] or result["train_seconds"] for result in results)


# Held-out images and seeds: those of tuning, those judged, and the seeds that the judged ones must avoid.
ROLES = {
    "critical-batch": ("validation", "validation", {100}, {0, 1, 2}),
    "critical-batch-tuned": ("validation", "test", {100, 101, 102}, {0, 1, 2, 3, 4}),
    "generalization": ("validation", "test", None, None),
    "lars-biases": ("validation", "test", None, None),
}


@pytest.mark.parametrize("name", ROLES)
def test_runs_are_judged_on_other_seeds_and_images_than_tuning_used(name):
    roles = {role: [r for r in results_of(name) if r["role"] == role] for role in ("tuning", "judged")}
    tuned_on, judged_on, *seeds = ROLES[name]
    assert {result["held_out"] for result in roles["tuning"]} == {tuned_on}
    assert {result["held_out"] for result in roles["judged"]} == {judged_on}
    found = [{result["seed"] for result in results} for results in roles.values()]
    assert not found[0] & found[1] and len(found[1]) >= 3
    assert seeds in (found, [None, None])


def test_arms_are_judged_on_other_seeds_and_images_than_tuning_used():
    tuning, judged, again = (
        results_of(name) for name in ("convergence-tuning", "convergence-cifar10", "convergence-again")
    )
    again = [result for result in again if result["role"] == "judged"]
    held_out = [{result["held_out"] for result in results} for results in (tuning, judged, again)]
    assert held_out == [{"validation"}, {"test"}, {"test"}]
    seeds = [{result["seed"] for result in results} for results in (tuning, judged, again)]
    assert len(seeds[1]) >= 5 and len(set.union(*seeds)) == sum(map(len, seeds))  # no seed has two parts
    assert {result["data"]["train_samples"] for result in tuning + judged} == {45_056}


def test_every_batch_of_the_critical_batch_sweep_reached_its_target():
    for file, batches in (("critical-batch", [32 * 2**k for k in range(8)]), ("critical-batch-tuned", None)):
        for configuration in ("plain SGD", "SGD with momentum", "LAMB"):
            curve = critical.critical_batch(recorded(file), configuration=configuration)
            assert batches in ([point.batch for point in curve.points], None)
            assert not any(point.missed for point in curve.points)
            assert file == "critical-batch-tuned" or not any(point.at_edge for point in curve.points)


def test_sharpness_is_compared_between_twelve_settings_at_one_loss():
    measured = results_of("landscape")
    settings = collections.Counter((result["global_batch"], result["run"]["learning_rate"]) for result in measured)
    assert len(settings) == 12 and set(settings.values()) == {6}
    assert {result["stopped_by"] for result in measured} == {"target"}
    again = results_of("landscape-again")
    assert settings.keys() == {(result["global_batch"], result["run"]["learning_rate"]) for result in again}
    seeds = {result["seed"] for result in again}
    assert len(again) == 12 * len(seeds) == 96 and not seeds & {result["seed"] for result in measured}


SINCE = {  # what changed in the submissions since they were recorded: a module's name, spelling, and a comment
    "from course.data.augment": "from ddl.data.augment",
    "normalizes": "normalises",
    "learned": "learnt",
    "center": "centre",
    "the best of lesson 4's grid at 1,024 with a warm-up": "the linear scaling rule: 0.1 at batch 64, 16 times that at 1,024",
}


def as_recorded(source):
    """Return a submission's text at the time of its records."""
    for now, then in SINCE.items():
        source = source.replace(now, then)
    return source


TUNING = {1_000, 1_001, 1_002}  # seeds that settings of the challenge's configurations were chosen with
BEHIND = 0.02  # of accuracy: a setting so far behind with the first seed was not tried with the others


def best_on_its_grids(tuning):
    """Return the best setting of a configuration; its grids go beyond it, and all but those behind it have all tuning seeds."""
    seeds = collections.defaultdict(dict)
    for run in tuning:
        seeds[run["rate"], run["rest"]][run["seed"]] = run["public_accuracy"]
    means = {setting: statistics.fmean(some.values()) for setting, some in seeds.items()}
    best = max(means, key=means.get)
    for knob in (0, 1):
        tried = {setting[knob] for setting in means}
        assert min(tried) < best[knob] < max(tried)
    for setting, some in seeds.items():
        assert set(some) == TUNING or (len(some) == 1 and means[setting] <= means[best] - BEHIND)
    return best


def test_challenge_arms_share_seeds_and_are_tuned_on_others():
    for name, count in (("challenge-ablations", 11), ("challenge-times", 3)):
        configurations = collections.defaultdict(lambda: {"tuning": [], "judged": []})
        for result in results_of(name):
            configurations[result["configuration"]][result.get("role") or "judged"].append(result)
        assert len(configurations) == count
        for configuration, results in configurations.items():
            assert [result["seed"] for result in results["judged"]] == [*range(5)], configuration
            assert len({result["challenge"]["file"] for result in results["judged"]}) == 1
            assert not any(result["trial"] or result["diverged"] for result in results["judged"])
            if name == "challenge-ablations":
                assert best_on_its_grids(results["tuning"])
                assert not {result["seed"] for result in results["tuning"]} & {*range(20)}


def test_challenge_was_timed_with_the_files_of_today():
    files = {result["configuration"]: result["challenge"]["file"] for result in results_of("challenge-times")}
    for configuration in ("baseline", "reference"):
        source = as_recorded(BASELINE.with_name(f"{configuration}.py").read_text())
        assert files[configuration] == sha256(source.encode()), f"record {configuration} again"


@pytest.mark.parametrize(("name", "seeds"), [("cifar10", 20), ("synthetic", 10)])
def test_baseline_reaches_the_target_nine_times_in_ten(name, seeds):
    results = results_of({"cifar10": "challenge-baseline", "synthetic": "challenge-generated"}[name])
    assert sorted(result["seed"] for result in results) == list(range(seeds))
    files = {result["challenge"]["file"] for result in results}
    assert files == {sha256(as_recorded(BASELINE.read_text()).encode())}, "record the baseline again"
    assert not any(result["trial"] or result["diverged"] or result["data"]["name"] != name for result in results)
    reached = [result["private_accuracy"] for result in results]
    mean, deviation = statistics.fmean(reached), statistics.stdev(reached)

    def power(target):  # of Student's one-sided test on so many runs, with these for what is true
        freedom, distance = RUNS - 1, (mean - target) / deviation * RUNS**0.5
        return nct.sf(t.ppf(1 - ALPHA, freedom), freedom, distance)

    assert power(TARGETS[name]) >= 0.9 > power(TARGETS[name] + 0.005)


def test_every_arm_has_the_best_rate_of_its_grid_inside_the_edges():
    grids = tuning.grids(recorded("convergence-tuning"))
    judged = {run.name: run.result["learning_rate"] for run in recorded("convergence-cifar10")}
    for configuration, grid in grids.items():
        assert not grid.at_edge, configuration
        assert judged[configuration] == pytest.approx(grid.best), configuration


def test_base_rates_match_the_grids():
    def rate_of(name):
        return scaled(OPTIMIZERS[name].base_rate, 1024, RECIPES[name].lr_rule)

    grids = tuning.grids(recorded("convergence-tuning"))
    assert grids["small batch"].best == OPTIMIZERS["sgd"].base_rate
    assert grids["LARS"].best == pytest.approx(rate_of("lars"))
    lamb, peak = grids["LAMB"], rate_of("lamb")
    (taken,) = [mean for rate, mean in lamb.means.items() if rate == pytest.approx(peak)]
    assert abs(taken - lamb.means[lamb.best]) < 0.01 and lamb.best == pytest.approx(2 * peak)
    assert not lamb.means[2 * lamb.best] > 0.15


def test_recorded_pairs_differ_in_precision_alone():
    for name, least in (("precision", 3), ("precision-speed", 3)):
        pairs = {}
        for result in results_of(name):
            pairs.setdefault((result.get("pair"), result["seed"]), []).append(result)
        assert len(pairs) >= least
        for first, second in pairs.values():
            assert (first["precision"], second["precision"]) == ("float32", "bfloat16")
            for key in ("script", "hardware", "versions", "data", "ranks", "threads_per_rank", "global_batch", "steps"):
                assert first[key] == second[key]
            assert {**first["config"], "precision": ""} == {**second["config"], "precision": ""}
            assert first.get("sent") == second.get("sent")  # bfloat16 sends no less


def test_measured_md_states_the_recorded_pairs():
    accuracy = precisions.pairs(recorded("precision"), "test_accuracy")
    speed = precisions.pairs(recorded("precision-speed"), "images_per_s")
    measured = " ".join((ROOT / "docs" / "measured.md").read_text().split())
    for claim in (
        f"{100 * statistics.fmean(accuracy.float32):.1f} % and {100 * statistics.fmean(accuracy.bfloat16):.1f} %",
        f"a difference of {100 * accuracy.difference.mean:+.1f} ± {100 * accuracy.difference.half_width:.1f} points "
        f"({len(accuracy.float32)} pairs",
        f"{statistics.median(speed.bfloat16):,.0f} ÷ {statistics.median(speed.float32):,.0f}; the median of "
        f"the pairs' ratios is {statistics.median(speed.ratios):.2f} ({min(speed.ratios):.2f} to {max(speed.ratios):.2f})",
    ):
        assert claim.replace("-", "−") in measured, claim
