"""The course, on top of `ddl`: what lessons import, by the names that they use.

Each lesson has a room with its numbers, its figures and its scripts; what two rooms need is in `shared`. Names are
imported on first use.
"""

from importlib import import_module

from ddl.lazy import lazy_names

__version__ = "0.2.0"  # CHANGELOG.md says what is new

_HOME = {
    "check": "grader.check",
    "classroom": "grader.classroom",
    "compare_guess": "shared.guess",
    "hint": "grader.hints",
    "progress": "grader.progress",
    "share": "grader.classroom",
    "recorded": "shared.recorded",
    "agreement": "workers.agreement",
    "difference": "workers.difference",
    "initial_weights": "workers.exercise",
    "report": "workers.exercise",
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
    "bandwidth": "links.bandwidth",
    "clusters": "links.clusters",
    "hierarchy": "links.hierarchy",
    "prediction": "links.prediction",
    "published": "links.published",
    "race": "links.race",
    "classification": "workers.classification",
    "disturbed": "workers.disturbed",
    "drill": "workers.drill",
    "exercise": "workers.exercise",
    "failures": "workers.failures",
    "mistakes": "workers.mistakes",
    "precisions": "workers.precisions",
    "critical": "convergence.critical",
    "sharpness": "convergence.sharpness",
    "tuning": "convergence.tuning",
    "memory": "sharding.memory",
    "messages": "sharding.messages",
    "pipeline": "sharding.pipeline",
    "splits": "sharding.splits",
}

_attribute, __dir__, __all__ = lazy_names(__name__, _HOME, _MODULES)


def __getattr__(name):
    if name in ("hint", "check"):
        import_module("course.grader.marks").follow()  # the lesson's questions say how they stand
    return _attribute(name)
