"""Public names of a package, imported on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    `names` maps each public name to the module that defines it; `modules` maps the public name of a module to its
    place in the package. A public name must not equal the name of one of the package's modules, because importing
    that module would replace it.
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
