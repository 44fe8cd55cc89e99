"""The course package, built on `ddl`: the names that lessons import.

Each lesson has a subpackage with its formulas, figures and scripts; `shared` holds what several lessons use. Names are
imported on first use.
"""

from importlib import import_module

from ddl.lazy import lazy_names

__version__ = "0.2.0"  # see CHANGELOG.md

_HOME = {
    "Bets": "shared.guess",
    "check": "lab.check",
    "classroom": "lab.classroom",
    "compare_guess": "shared.guess",
    "hint": "lab.hints",
    "progress": "lab.progress",
    "share": "lab.classroom",
    "recorded": "shared.recorded",
    "Tabs": "shared.tabs",
    "working": "shared.working",
    "agreement": "multi_gpu.agreement",
    "difference": "multi_gpu.difference",
    "initial_weights": "multi_gpu.exercise",
    "report": "multi_gpu.exercise",
}
_MODULES = {
    "challenge": "challenge",
    "data": "data",
    "plot": "plot",
    "topology": "topology",
    "cost": "shared.cost",
    "efficiency": "shared.efficiency",
    "ring": "shared.ring",
    "descent": "gradients.descent",
    "sgd": "gradients.sgd",
    "hierarchy": "topology.hierarchy",
    "prediction": "topology.prediction",
    "fault_injection": "multi_gpu.fault_injection",
    "exercise": "multi_gpu.exercise",
    "failures": "multi_gpu.failures",
    "mistakes": "multi_gpu.mistakes",
    "precisions": "multi_gpu.precisions",
    "critical": "convergence.critical",
    "sharpness": "convergence.sharpness",
    "tuning": "convergence.tuning",
    "memory": "sharding.memory",
    "messages": "sharding.messages",
    "pipeline": "sharding.pipeline",
    "roofline": "sharding.roofline",
    "splits": "sharding.splits",
}

_attribute, __dir__, __all__ = lazy_names(__name__, _HOME, _MODULES)


def __getattr__(name):
    if name in ("hint", "check"):
        import_module("course.lab.question_status").follow()  # the lesson's questions show their status
    return _attribute(name)
