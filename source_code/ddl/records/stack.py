"""Which software stack is installed, TensorFlow 2.15 ("default") or later ("next"), and whether its Keras works.

Horovod's wrapper needs Keras 2. TensorFlow 2.15 includes it. Later versions include Keras 3 and use Keras 2 from the
package tf_keras if ``TF_USE_LEGACY_KERAS`` is 1; the next stack's environment sets that for every process
(ddl-next.pth).
"""

import os
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from ddl.errors import CourseError, InputError
from ddl.records.machine import version_of, versions

NO_TORCH = "PyTorch is not installed. The course doesn't need it; `make lab TORCH=1` installs it."
TOO_NEW = (
    10,
    0,
)  # compute capability from which TensorFlow 2.15 is reported to fail, although its portable code may load
VARIABLE = "TF_USE_LEGACY_KERAS"
IMPORTED = ("numpy", "tensorflow", "keras", "horovod", "torch", "pandas", "google", "psutil", "yaml")
YES = ("1", "true", "True")  # values that TensorFlow takes as yes


class WrongKeras(CourseError, RuntimeError):
    """``tf.keras`` is missing or does not work with Horovod's wrapper."""


def release(version: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version: ``"2.15.1"`` is (2, 15)."""
    numbers = (version or "").split(".")[:2]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else None


def name() -> str:
    """Return ``"next"`` from TensorFlow 2.16 on, otherwise (also without TensorFlow) ``"default"``."""
    return "next" if (release(versions()["tensorflow"]) or (2, 15)) >= (2, 16) else "default"


def for_processors() -> bool:
    """Return whether the installed TensorFlow is the build for processors only."""
    return bool(version_of("tensorflow-cpu")) and not version_of("tensorflow")


def hidden_packages() -> dict[str, str]:
    """Return the packages of this environment that ``PYTHONPATH`` hides, each with the folder that has another one.

    `module load` may leave folders there with another Python's packages.
    """
    own = Path(sysconfig.get_path("purelib"))
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    return {
        name: folder
        for name in IMPORTED
        for folder in reversed(folders)
        if (own / name).is_dir() and (Path(folder, name).is_dir() or Path(folder, f"{name}.py").is_file())
    }


def hidden_sentence(name: str, folder: str) -> str:
    """Say that PYTHONPATH hides a package, and what to do."""
    return f"PYTHONPATH puts the {name} in {folder} before the environment's: unset PYTHONPATH, then try again"


def wrong_keras() -> str:
    """Return what is wrong with this process's Keras, as a sentence; empty if nothing is."""
    wanted, installed = os.environ.get(VARIABLE) in YES, find_spec("tf_keras") is not None
    if name() == "default":
        if wanted and not installed:
            return f"{VARIABLE} is set, so TensorFlow 2.15 looks for tf_keras, which it does not need: unset it."
        return ""
    if wanted and installed:
        return ""
    how = f"set {VARIABLE}=1" if installed else "`make setup STACK=next` installs tf_keras"
    return (
        "this TensorFlow would use Keras 3. Horovod's optimizer does not support it: without any error, the ranks' "
        f"weights would drift apart. To use Keras 2, {how}."
    )


NO_HOROVOD = (
    "Horovod is not installed here. A script for tf.distribute or PyTorch does not need it: give its cluster, such as "
    "`--cluster torchrun`. For a Horovod script, install horovod, or use the course's environment (`make setup`)."
)


def require_horovod() -> None:
    """Raise `InputError` if Horovod is not installed."""
    if find_spec("horovod") is None:
        raise InputError(NO_HOROVOD)


def require_keras_2() -> None:
    """Raise `WrongKeras` unless ``tf.keras`` is Keras 2."""
    if sentence := wrong_keras():
        raise WrongKeras(sentence)


def has_torch() -> bool:
    """Return whether PyTorch is installed; if not, print how to install it."""
    found = find_spec("torch") is not None
    if not found:
        print(NO_TORCH)
    return found
