"""Launch, follow and compare distributed training runs.

The names below are all that a notebook needs. They are imported on first use, so that
``import ddl`` costs next to nothing in the workers and in the command line.
"""

from importlib import import_module

from ddl.lazy import lazy_names

__version__ = "0.2.0"  # CHANGELOG.md says what is new

_HOME = {
    "launch": "launcher.launch",
    "attach": "launcher.run",
    "runs": "launcher.run",
    "Run": "launcher.run",
    "RunFailed": "launcher.run",
    "has_torch": "launcher.extras",
    "Job": "launcher.job",
    "Site": "launcher.site",
    "recorded": "records.reference",
    "Recorder": "records.recorder",
    "compare": "analysis.comparison",
    "paired": "analysis.paired",
    "doctor": "diagnose.machine",
    "check": "grader.check",
    "progress": "grader.progress",
    "hint": "grader.hints",
    "share": "grader.share",
    "classroom": "grader.classroom",
    "agreement": "analysis.agreement",
    "difference": "analysis.difference",
    "beside": "display.guess",
}

# Modules that a lesson calls by their own name; `plot`, `topology` and `data` are rooms themselves.
_MODULES = {
    "bandwidth": "analysis.bandwidth",
    "classification": "analysis.classification",
    "clusters": "analysis.clusters",
    "cost": "analysis.cost",
    "critical": "analysis.critical",
    "descent": "analysis.descent",
    "disturbed": "analysis.disturbed",
    "efficiency": "analysis.efficiency",
    "hierarchy": "analysis.hierarchy",
    "mistakes": "analysis.mistakes",
    "precisions": "analysis.precisions",
    "prediction": "analysis.prediction",
    "published": "analysis.published",
    "race": "analysis.race",
    "ring": "analysis.ring",
    "sgd": "analysis.sgd",
    "sharpness": "analysis.sharpness",
    "tuning": "analysis.tuning",
    "cluster": "rank.cluster",
    "hosts": "launcher.hosts",
    "stack": "records.stack",
}

_attribute, __dir__, __all__ = lazy_names(__name__, _HOME, _MODULES)


def __getattr__(name):
    if name in ("hint", "check"):
        import_module("ddl.grader.marks").follow()  # the lesson's questions say how they stand
    return _attribute(name)
