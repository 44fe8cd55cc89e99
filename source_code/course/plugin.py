"""The course's plug-in for `ddl`: commands, a data-set check for `ddl doctor`, a class's page, and what is gone."""

from course.cli import add_commands
from ddl.diagnose.report import Check

__all__ = ["REMOVED", "add_commands", "checks", "hidden_figures", "needs", "pages", "script_folders"]

REMOVED = {  # until the next release
    "predict": (
        "`ddl predict` was removed in this release: for clusters that it had not seen, it did not beat a constant "
        "guess of 90 % (docs/measured.md)"
    ),
    "race_allreduce.py": "race_allreduce.py was removed in this release: measure algorithms with NVIDIA's nccl-tests",
    "landscape.py": "landscape.py was removed in this release: lesson 4b shows its result in a few lines of NumPy",
    "few_messages.py": "few_messages.py was removed in this release: lesson 6c simulates ranks that send less",
    "fashion_mnist": "Fashion-MNIST went with this release, because no lesson used it",
    ".xml": "hwloc's XML is not read since this release: `lstopo` draws it; `ddl topology` shows this machine",
}


def needs():
    """Return the packages that the course cannot do without."""
    from ddl.records import stack

    return "horovod", "tensorflow", "tf_keras" if stack.name() == "next" else "tensorflow_addons"


def hidden_figures():
    """Return the numbers of the course's events that lessons show elsewhere than in the view of a run."""
    return "clean_loss clean_accuracy noise_scale gradient_sq variance size_bytes".split()


def checks():
    """Return the lines of `ddl doctor` about data sets."""
    from course.data import listing

    entries = {entry.name: entry for entry in listing()}
    return _cifar10(entries["cifar10"]), _synthetic(entries["synthetic"])


def _cifar10(entry):
    from course.data.dataset import DamagedData, OtherFormat

    if entry.is_here:
        return Check("CIFAR-10", "OK", f"{entry.form}, {entry.samples:,} images, in {entry.path}")
    if isinstance(entry.problem, (DamagedData, OtherFormat)):  # a run fails only on damaged data
        state = "missing" if isinstance(entry.problem, DamagedData) else "optional"
        return Check("CIFAR-10", state, *entry.form.split(". ", 1))
    return Check(
        "CIFAR-10",
        "optional",
        "not here: generated images stand in for it",
        "`ddl data fetch cifar10`, or set DDL_DATA_DIR to a folder that has it",
    )


def _synthetic(entry):
    if entry.is_here:
        return Check("generated images", "OK", f"in {entry.path}")
    return Check("generated images", "OK", "not made yet: the first run that needs them takes some seconds longer")


def pages():
    """Return the page of a class: as far as its attendees share where they are."""
    from course.lab.classroom import classroom

    return {"class": ("The class", lambda: classroom()._repr_html_())}


def script_folders():
    """Return where the course's scripts are."""
    from ddl.records.paths import source_dir

    return [source_dir(), *sorted(source_dir().glob("course/*/scripts"))]
