"""Public names of a package, imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    `names` has for each public name the package's module that defines it, `modules` for each module that is public
    under a name of its own where it is in the package. No name may be that of a module of the package: importing that
    would take its place.
    """
    modules = modules or {}
    public = [*names, *modules]

    def get(name: str) -> Any:
        if name in names:
            return getattr(import_module(f"{package}.{names[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{modules[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted([*vars(import_module(package)), *public]), public
