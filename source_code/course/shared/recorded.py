"""Recorded results that come with the course."""

from typing import Any

from ddl.errors import NotFound
from ddl.records.jsonfiles import DamagedFile, JsonLines
from ddl.records.paths import reference_dir


class Recorded:
    """A recorded run that comes with the course, with the interface of a finished `Run`."""

    recorded = True
    state = "done"

    def __init__(self, result: dict) -> None:
        self.result = result
        self.id = result.get("id")
        self.name = result["name"]

    @property
    def history(self) -> Any:
        """The run's evaluations, one row each, as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.result["history"])

    def __repr__(self) -> str:
        accuracy = self.result.get("test_accuracy")
        reached = "diverged" if accuracy is None else f"held-out accuracy {accuracy:.1%}"
        return f"<recorded {self.name}, seed {self.result.get('seed')}: {reached}>"


def recorded(name: str) -> list[Recorded]:
    """Return the runs in ``results/reference/<name>.jsonl``; `name` is, for example, ``"convergence-cifar10"``.

    Raises NotFound, with the available names, if there is no such file.
    """
    folder = reference_dir()
    path = folder / f"{name}.jsonl"
    if not path.exists():
        names = ", ".join(sorted(file.stem for file in folder.glob("*.jsonl")))
        raise NotFound(f"no recorded results named {name!r} in {folder}; available: {names or 'none'}")
    lines = JsonLines(path)
    results = [Recorded(line) for line in lines.look()]
    if lines.damaged:
        raise DamagedFile(f"{path} has {lines.damaged} damaged lines: get a new copy")
    return results
