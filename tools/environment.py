"""Make the course's Python environment, one step after another.

    make setup                  what people type
    make setup VENV=DIR         another folder than .venv, for example VENV=$CONDA_PREFIX

Each finished step leaves a stamp in the environment that says what it was made from. An interrupted
set-up therefore goes on where it stopped, a changed lock repeats what depends on it, and a finished
set-up costs one look at the stamps. Only the standard library is used: nothing is installed yet.

Environment variables: DDL_ACCELERATOR=cpu|gpu overrules what `nvidia-smi -L` says; DDL_DATA_DIR is
where data sets go; XDG_CACHE_HOME moves the user's cache. A GPU set-up has been resolved and locked,
but not measured on a GPU machine yet.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30
# Environment, installer's cache, build and data together: 2.9 GiB measured for cpu; CUDA adds about 5.
NEED_GIB = {"cpu": 4, "gpu": 10}
SILENCE_S = 10  # where no terminal redraws the line, print one this often


class SetupError(Exception):
    """What is missing and how to get it, in words for the person who typed `make`."""


@dataclass(frozen=True)
class Setup:
    """What is made, and where."""

    venv: Path
    accelerator: str
    root: Path = ROOT

    def __post_init__(self) -> None:
        if self.accelerator not in NEED_GIB:
            raise SetupError(
                f"DDL_ACCELERATOR is {self.accelerator!r}; it has to be one of cpu, gpu."
            )

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def stamps(self) -> Path:
        return self.venv / "ddl-setup"

    @property
    def lock(self) -> Path:
        suffix = "" if self.accelerator == "cpu" else "-gpu"
        return self.root / f"requirements{suffix}.lock"

    @property
    def logs(self) -> Path:
        return self.root / "build" / "setup"

    @property
    def wheel(self) -> Path:
        """Where the cached Horovod wheel belongs: its folder names all that the binary depends on."""
        lock = self.lock.read_text()
        tensorflow = "tensorflow-cpu" if self.accelerator == "cpu" else "tensorflow"
        horovod, tag = version(lock, "horovod"), "cp{}{}".format(*sys.version_info)
        key = f"{tag}-{tensorflow}-{version(lock, tensorflow)}-horovod-{horovod}-" + (
            f"{self.collectives}-{platform.machine()}-{''.join(platform.libc_ver())}"
        )
        folder = cache_dir() / "wheels" / key
        return folder / f"horovod-{horovod}-{tag}-{tag}-linux_{platform.machine()}.whl"

    @property
    def collectives(self) -> str:
        """cpu, or for a GPU machine gpu-nccl where CUDA's compiler and NCCL are, else gpu-gloo."""
        if self.accelerator == "cpu":
            return "cpu"
        cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
        nvcc = shutil.which("nvcc") or (cuda / "bin" / "nvcc").exists()
        homes = (os.environ.get("HOROVOD_NCCL_HOME", "/usr"), "/usr", cuda)
        nccl = any((Path(home) / "include" / "nccl.h").exists() for home in homes)
        return "gpu-nccl" if nvcc and nccl else "gpu-gloo"


@dataclass(frozen=True)
class Step:
    """One thing to have; `key` is what it is made from, so that a change repeats it."""

    name: str
    key: str
    make: Callable[["Setup", "Line"], str | None]


class Line:
    """The line of one step: redrawn while it lasts in a terminal, else repeated now and then."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stdout.isatty()
        if self.terminal:
            self.show("")
        else:
            print(f"set-up  {name} …", flush=True)

    def show(self, detail: str) -> None:
        now = time.monotonic()
        if not self.terminal and now - self.shown < SILENCE_S:
            return
        self.shown = now
        text = f"set-up  {self.name:<13} {now - self.started:4.0f} s  {detail}".rstrip()
        if self.terminal:
            print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
        else:
            print(text[:100], flush=True)

    def end(self, detail: str) -> None:
        self.shown = -SILENCE_S
        self.show(detail)
        if self.terminal:
            print()

    def run(self, setup: Setup, command: list, env: Mapping[str, str] | None = None) -> None:
        """Run a command: what it prints goes to the step's log, its latest line to the screen."""
        setup.logs.mkdir(parents=True, exist_ok=True)
        path = setup.logs / f"{self.name}.log"
        with path.open("ab") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(setup) | dict(env or {}), start_new_session=True,
            )  # fmt: skip
            try:
                while (code := wait(process, 0.5)) is None:
                    self.show(latest(path))
            finally:
                if process.poll() is None:  # interrupted: nothing goes on behind the person's back
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code:
            tail = "\n".join(f"    {line}" for line in lines(path)[-15:])
            raise SetupError(f"{self.name}: the command below failed; all it said is in {path}\n{tail}")


def wait(process: subprocess.Popen, timeout_s: float) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout_s)
    return None


def lines(path: Path) -> list[str]:
    """The last lines of a log, whatever redrew them and however they are encoded."""
    text = path.read_bytes()[-(2**16) :].decode(errors="replace")
    return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()] or [""]


def latest(path: Path) -> str:
    """A compiler's progress where the log has one, else its last line."""
    said = lines(path)
    return next((line for line in reversed(said) if re.match(r"\[ *\d+%\]", line)), said[-1])


def environment(setup: Setup) -> dict[str, str]:
    """What every command is run with: the environment's own programs, and a site's mirror and
    certificates, which uv does not read from where pip has them."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    env |= {"PATH": f"{setup.venv / 'bin'}:{os.environ['PATH']}", "PYTHONNOUSERSITE": "1"}
    env |= {"PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for ours, pips in (("UV_DEFAULT_INDEX", "PIP_INDEX_URL"), ("SSL_CERT_FILE", "PIP_CERT")):
        if pips in env:
            env.setdefault(ours, env[pips])
    return env


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddl"


def version(lock: str, package: str) -> str:
    return entry(lock, package).split()[0].partition("==")[2]


def entry(lock: str, package: str) -> str:
    """The lines of a lock that pin one package: its version and its hashes."""
    found = re.search(rf"^{re.escape(package)}==.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)
    if not found:
        raise SetupError(f"the lock has no {package}: run `make lock`.")
    return found.group()


@contextlib.contextmanager
def locked(path: Path, line: Line) -> Iterator[None]:
    """Hold a lock, so that two set-ups never make the same thing at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                line.show(f"another set-up is at work (it holds {path})")
                time.sleep(0.5)
        yield


@contextlib.contextmanager
def requirements(text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        yield file.name


def make_python(setup: Setup, line: Line) -> None:
    """A virtual environment; one that is there and works, conda's for instance, is used as it is."""
    has = subprocess.run(
        [setup.python, "-c", "import sys, pip; assert sys.version_info[:2] == (3, 11)"],
        capture_output=True, check=False,
    ) if setup.python.exists() else None  # fmt: skip
    ours = setup.venv == setup.root / ".venv" or setup.stamps.is_dir()
    if has and has.returncode == 0 and not (setup.venv == setup.root / ".venv"):
        return
    if setup.venv.exists() and not ours:
        raise SetupError(f"{setup.venv} is no working Python 3.11 with pip: name another VENV.")
    line.run(setup, [sys.executable, "-m", "venv", "--clear", setup.venv])


def make_dependencies(setup: Setup, line: Line) -> None:
    """Everything in the lock but Horovod, which needs the rest to be compiled."""
    lock = setup.lock.read_text()
    begun = setup.stamps / "dependencies.begun"
    repair = ["--reinstall"] if begun.exists() else []  # a package may have been half written
    begun.touch()
    with requirements(entry(lock, "uv")) as uv:
        line.run(setup, [setup.python, "-m", "pip", "install", "--require-hashes", "-r", uv])
    with requirements(lock.replace(entry(lock, "horovod"), "")) as rest:
        line.run(setup, install(setup, *repair, "--require-hashes", "-r", rest))
    begun.unlink()


def install(setup: Setup, *arguments: str | Path) -> list:
    return [setup.python, "-m", "uv", "pip", "install", "--python", setup.python, *arguments]


def make_horovod(setup: Setup, line: Line) -> str:
    """Horovod from the user's cache, or compiled into it; used only after it was seen to work."""
    wheel = setup.wheel
    with locked(wheel.parent / "lock", line):
        origin = "from the cache"
        if not intact(wheel):
            origin = "compiled, and kept in the cache"
            build_horovod(setup, line)
        line.run(setup, install(setup, "--no-deps", "--reinstall", wheel))
        probe = "import horovod.tensorflow as hvd; assert hvd.gloo_built()"
        try:
            line.run(setup, [setup.python, "-c", probe])
        except SetupError:
            wheel.unlink()  # the next set-up compiles it afresh
            raise
    return origin


def intact(wheel: Path) -> bool:
    """Whether a wheel is there and every file in it matches its checksum."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return False


def build_horovod(setup: Setup, line: Line) -> None:
    check_compiler()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    jobs = max(1, min(len(os.sched_getaffinity(0)), int(memory_gib / 2)))  # a compiler takes 1.5 GiB
    env = {f"HOROVOD_{name}": "1" for name in ("WITH_TENSORFLOW", "WITH_GLOO", "WITHOUT_MPI")}
    env |= {"HOROVOD_WITHOUT_PYTORCH": "1", "HOROVOD_WITHOUT_MXNET": "1", "MAKEFLAGS": f"-j{jobs}"}
    if setup.collectives == "gpu-nccl":
        env["HOROVOD_GPU_OPERATIONS"] = "NCCL"
    folder = setup.wheel.parent / "building"
    shutil.rmtree(folder, ignore_errors=True)  # what a killed set-up left
    folder.mkdir()
    with requirements(entry(setup.lock.read_text(), "horovod")) as horovod:
        line.run(
            setup,
            [setup.python, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps"]
            + ["--no-cache-dir", "--require-hashes", "-r", horovod, "-w", folder],
            env | {"TMPDIR": str(folder)},
        )
    os.replace(next(folder.glob("horovod-*.whl")), setup.wheel)
    shutil.rmtree(folder)


def make_package(setup: Setup, line: Line) -> None:
    line.run(setup, install(setup, "--no-deps", "--no-build-isolation", "-e", setup.root))


def make_data(setup: Setup, line: Line) -> str:
    """CIFAR-10 where it can be had; the lessons also work with pictures that are generated."""
    try:
        line.run(setup, [setup.venv / "bin" / "ddl", "data", "fetch", "cifar10"])
        return "CIFAR-10"
    except SetupError:
        line.run(setup, [setup.venv / "bin" / "ddl", "data", "fetch", "synthetic"])
        return f"CIFAR-10 can't be had here ({setup.logs / 'data.log'}): generated pictures instead"


def steps(setup: Setup) -> list[Step]:
    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    data = os.environ.get("DDL_DATA_DIR") or cache_dir() / "data"
    return [
        Step("python", f"{setup.venv}", make_python),
        Step("dependencies", f"{setup.lock.name} {digest(setup.lock)}", make_dependencies),
        Step("horovod", setup.wheel.parent.name, make_horovod),
        Step("package", f"{setup.root} {digest(setup.root / 'pyproject.toml')}", make_package),
        Step("data", f"{data}", make_data),
    ]


def pending(setup: Setup) -> list[Step]:
    def stamp(step: Step) -> str | None:
        with contextlib.suppress(OSError):
            return (setup.stamps / step.name).read_text()
        return None

    return [step for step in steps(setup) if stamp(step) != step.key]


def check_compiler() -> None:
    names = [os.environ.get("CXX", "c++"), "g++", "clang++"]
    for what, found in (("C++ compiler", any(map(shutil.which, names))), ("make", shutil.which("make"))):
        if not found:
            raise SetupError(
                f"Horovod has to be compiled and there is no {what}: install one with "
                "`apt install build-essential`, `dnf install gcc-c++ make`, or in a conda "
                "environment `conda install cxx-compiler make`."
            )


def check_ensurepip() -> None:
    has = subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False)
    if has.returncode:
        raise SetupError(
            f"{sys.executable} cannot make virtual environments: install them with "
            "`apt install python3.11-venv`, or name another Python with PYTHON=/path/to/python3.11."
        )


def check_space(setup: Setup) -> None:
    need = NEED_GIB[setup.accelerator]
    for folder in (setup.venv, cache_dir()):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(there).free / GIB
        if free < need:
            raise SetupError(
                f"{folder} has {free:.1f} GiB of free disk space and the set-up needs {need} GiB: "
                "free some, or move the environment with VENV=DIR or the cache with XDG_CACHE_HOME=DIR."
            )


def accelerator(venv: Path) -> str:
    """cpu or gpu: what the environment says, what this folder was set up for, what the machine has."""
    stamp = venv / "ddl-setup" / "accelerator"
    if chosen := os.environ.get("DDL_ACCELERATOR"):
        return chosen
    if stamp.exists():  # so that one home folder serves login nodes and GPU nodes alike
        return stamp.read_text()
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "cpu"
    return "gpu" if listed.stdout.startswith(b"GPU ") else "cpu"


def set_up(setup: Setup) -> None:
    todo = pending(setup)
    if not todo:
        return
    names = [step.name for step in todo]
    if "python" in names and not setup.python.exists():
        check_ensurepip()
    if "horovod" in names and not setup.wheel.exists():
        check_compiler()
    if "dependencies" in names:
        check_space(setup)
    with locked(setup.root / "build" / "setup.lock", Line("waiting")):
        for step in pending(setup):
            line = Line(step.name)
            note = step.make(setup, line)
            setup.stamps.mkdir(exist_ok=True)
            (setup.stamps / "accelerator").write_text(setup.accelerator)
            (setup.stamps / step.name).write_text(step.key)
            line.end(note or "")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        venv = Path(os.path.abspath(arguments[0] if arguments else ROOT / ".venv"))
        set_up(Setup(venv, accelerator(venv)))
    except SetupError as error:
        print(f"\nset-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up: interrupted; `make setup` goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
