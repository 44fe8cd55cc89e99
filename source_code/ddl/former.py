"""Names of release 0.2 that saved notebooks still import: the course was a part of `ddl`. Release 0.4 drops this."""

import sys
from importlib import import_module
from importlib.util import spec_from_loader

PACKAGES = ("challenge", "data", "grader", "lab", "plot", "topology", "training")  # now of the course
DIVIDED = "ddl.analysis"  # among the lessons' rooms
MODULES = {  # of those that lessons imported by their own name
    "ddl.analysis.challenge": "course.challenge.findings",
    "ddl.analysis.paired": "ddl.pairs",
    "ddl.analysis.ring": "course.shared.ring",
    "ddl.analysis.sharpness": "course.convergence.sharpness",
}
NAMES = frozenset(
    """
    agreement check classroom difference hint progress recorded share
    cost efficiency ring descent sgd bandwidth clusters hierarchy prediction published race classification
    disturbed mistakes precisions critical sharpness tuning
    """.split()
).union(PACKAGES)


def attribute(name):
    """Return what ``from ddl import NAME`` gave."""
    return import_module(f"course.{name}") if name in PACKAGES else getattr(import_module("course"), name)


class Finder:
    """Finds modules of release 0.2 where they are now."""

    def find_spec(self, name, path=None, target=None):
        if name == DIVIDED:
            return spec_from_loader(name, self, is_package=True)  # empty: imports set names in what is above them
        return spec_from_loader(name, self) if name.startswith("ddl.") and present_name(name) else None

    def create_module(self, spec):
        if spec.name == DIVIDED:
            return None
        module = import_module(present_name(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state or module.__spec__


def present_name(name):
    """Return a module's present name; None for what is a module of `ddl` still, or never was one."""
    _, package, *rest = name.split(".")
    return MODULES.get(name) or (".".join(("course", package, *rest)) if package in PACKAGES else None)


sys.meta_path.insert(0, Finder())
