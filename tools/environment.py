"""Make the course's Python environment, one step after another.

    make setup                  what people type
    make setup VENV=DIR         another folder than .venv, for example VENV=$CONDA_PREFIX
    make setup STACK=next       TensorFlow 2.21 in .venv-next, on any Python from 3.10 to 3.13
    environment.py DIR STEP…    only these steps: what the container images are built with

uv installs what the lock pins. What uv alone cannot do is here: install uv itself, compile Horovod against the
packages installed before it, and cache that wheel by all that the binary depends on. A finished step leaves a
stamp that says what it was made from, so an interrupted set-up resumes and a changed lock repeats what depends
on it. Only the standard library is used: nothing is installed yet.

Environment variables: DDL_ACCELERATOR=cpu|gpu overrules what `nvidia-smi -L` says, DDL_MPI=1 builds Horovod with MPI
(a site file's controller = "mpi" needs that), DDL_STACK=next asks for the newer stack, DDL_TORCH=1 adds PyTorch,
DDL_DATA_DIR is where data sets go, XDG_CACHE_HOME moves the user's cache. Certificates are the system's, or those of
SSL_CERT_FILE, SSL_CERT_DIR or PIP_CERT. The GPU's lock resolves, but has not been measured on a machine with a GPU yet.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from line import CommandError, Line, last_lines

ROOT = Path(__file__).resolve().parent.parent
GIB = 2**30
STORES = (  # the system's certificates on Debian, Fedora, openSUSE and Alpine
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
REFUSED = re.compile(r"invalid peer certificate|ssl certificate|CERTIFICATE_VERIFY_FAILED", re.I)
NEED_GIB = {"cpu": 4, "gpu": 10}  # environment, installer's cache, Horovod's build, data
MINORS = {"default": (11, 11), "next": (10, 13)}  # the first and the last Python 3 of each; tools/python.sh has them
# The next stack's TensorFlow takes Keras 2 (tf_keras) only if this says so, in each process: ranks, kernels, terminals.
# Python runs it as it starts, wherever the environment is. ddl.records.stack refuses what does not fit.
LEGACY_KERAS = 'import os; os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")'


class SetupError(Exception):
    """What is missing and how to get it, in one sentence for the person who typed `make`."""


@dataclass(frozen=True)
class Setup:
    """What is to be made, and where."""

    venv: Path
    accelerator: str
    root: Path = ROOT
    mpi: bool = False
    torch: bool = False
    stack: str = "default"

    def __post_init__(self) -> None:
        require(self.accelerator in NEED_GIB, f"DDL_ACCELERATOR={self.accelerator} is neither cpu nor gpu.")
        require(self.stack in MINORS, f"STACK={self.stack} is neither default nor next.")
        require(
            self.stack == "default" or self.accelerator == "cpu",
            "the next stack runs on CPUs only so far: leave STACK=next out, or set DDL_ACCELERATOR=cpu.",
        )

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def stamps(self) -> Path:
        return self.venv / "ddl-setup"

    @property
    def lock(self) -> Path:
        name = "requirements-next.lock" if self.stack == "next" else "requirements.lock"
        return self.root / (name if self.accelerator == "cpu" else "requirements-gpu.lock")

    @property
    def pythons(self) -> str:
        """The versions of Python that the stack runs on, for a sentence."""
        return " to ".join(f"3.{minor}" for minor in dict.fromkeys(MINORS[self.stack]))

    @property
    def collectives(self) -> str:
        """How Horovod is built: with NCCL where nvcc and NCCL's header are, else with Gloo."""
        if self.accelerator == "cpu":
            return "cpu"
        cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
        nvcc = shutil.which("nvcc") or (cuda / "bin" / "nvcc").exists()
        homes = (Path(os.environ.get("HOROVOD_NCCL_HOME", "/usr")), Path("/usr"), cuda)
        nccl = any((home / "include" / "nccl.h").exists() for home in homes)
        return "gpu-nccl" if nvcc and nccl else "gpu-gloo"

    @property
    def wheel(self) -> Path:
        """Where Horovod's wheel is cached: its folder names all that the binary depends on."""
        tensorflow = "tensorflow-cpu" if self.accelerator == "cpu" else "tensorflow"
        tag, horovod = "cp{}{}".format(*sys.version_info), self.version("horovod")
        key = [tag, tensorflow, self.version(tensorflow), "horovod", horovod, self.collectives]
        key += [*(["mpi"] if self.mpi else []), platform.machine(), *platform.libc_ver()]
        name = f"horovod-{horovod}-{tag}-{tag}-linux_{platform.machine()}.whl"
        return cache_dir() / "wheels" / "-".join(key) / name

    @property
    def torch_pin(self) -> str:
        return re.search(r'^torch = \["(.*?)"\]', (self.root / "pyproject.toml").read_text(), re.MULTILINE)[1]

    def entry(self, package: str) -> str:
        """The lines of the lock that pin one package: its version and its hashes."""
        found = re.search(rf"^{re.escape(package)}==.*\n(?:[ \t].*\n)*", self.lock.read_text(), re.MULTILINE)
        if not found:
            raise SetupError(f"{self.lock} has no {package}: `make lock` pins everything anew.")
        return found.group()

    def version(self, package: str) -> str:
        return self.entry(package).split()[0].partition("==")[2]

    def requirement(self, package: str) -> Path:
        """A requirements file with one package of the lock."""
        path = self.root / "build" / "setup" / f"{package}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.entry(package))
        return path

    def run(self, line: Line, command: list, **variables: str) -> None:
        """Run a command with the environment's own programs first, its output in the step's log."""
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        env |= {"PATH": f"{self.venv / 'bin'}:{env['PATH']}", "PYTHONNOUSERSITE": "1"}
        env |= {"PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        # uv does not read a mirror and certificates from where pip does, and neither looks into the system's by itself.
        for uv, pip in (("UV_DEFAULT_INDEX", "PIP_INDEX_URL"), ("SSL_CERT_FILE", "PIP_CERT")):
            if pip in env:
                env.setdefault(uv, env[pip])
        bundle = next(filter(os.path.exists, STORES), "")
        if bundle:
            env.setdefault("UV_SYSTEM_CERTS", "1")
        chosen = env.get("SSL_CERT_FILE") or env.get("SSL_CERT_DIR", "").split(":")[0] or bundle
        if chosen and "CURL_CA_BUNDLE" not in env:  # which pip reads, too
            env.setdefault("REQUESTS_CA_BUNDLE", chosen)
        log = self.root / "build" / "setup" / f"{line.name}.log"
        try:
            line.run(command, log, env | variables)
        except CommandError as error:
            if REFUSED.search("\n".join(last_lines(log)[-40:])):
                error.args = (
                    f"{error}\n{line.name}: a server's certificate was refused. If this network has certificates of "
                    "its own, add them to the system's, or name the file that has them: "
                    "SSL_CERT_FILE=/path/to/certificates.pem make setup",
                )
            raise

    def install(self, line: Line, *arguments: str | Path) -> None:
        self.run(line, [self.python, "-m", "uv", "pip", "install", "--python", self.python, *arguments])


@dataclass(frozen=True)
class Step:
    """One thing to have. `key` says what it is made from: another key, and it is made again."""

    name: str
    key: str
    make: Callable[[Setup, Line], str | None]

    def done(self, setup: Setup) -> bool:
        with contextlib.suppress(OSError):
            return (setup.stamps / self.name).read_text() == self.key
        return False


def steps(setup: Setup) -> list[Step]:
    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    return [
        Step("python", str(setup.venv), make_python),
        Step("dependencies", f"{setup.lock.name} {digest(setup.lock)}", make_dependencies),
        Step("horovod", setup.wheel.parent.name, make_horovod),
        Step("package", f"{setup.root} {digest(setup.root / 'pyproject.toml')}", make_package),
        Step("data", str(os.environ.get("DDL_DATA_DIR") or cache_dir() / "data"), make_data),
        *([Step("torch", setup.torch_pin, make_torch)] if setup.torch else []),
    ]


def pending(setup: Setup, names: Sequence[str] = ()) -> list[Step]:
    known = {step.name: step for step in steps(setup)}
    for name in names:
        require(name in known, f"{name} is not one of the steps: {', '.join(known)}.")
    return [step for name, step in known.items() if name in (names or known) and not step.done(setup)]


def make_python(setup: Setup, line: Line) -> None:
    """A virtual environment. One that is there and works, from conda say, is used as it is."""
    moved = (setup.stamps / "python").exists()  # its programs name the place where it was made
    first, last = MINORS[setup.stack]
    fits = f"import sys, pip; assert (3, {first}) <= sys.version_info[:2] <= (3, {last})"
    if not moved and succeeds(setup.python, "-c", fits):
        return
    require(
        not setup.venv.exists() or setup.venv in (setup.root / ".venv", setup.root / ".venv-next"),
        f"{setup.venv} is no working Python {setup.pythons} with pip: delete it, or name another VENV.",
    )
    setup.run(line, [sys.executable, "-m", "venv", "--clear", setup.venv])


def make_dependencies(setup: Setup, line: Line) -> None:
    """All that the lock pins but Horovod, which is compiled against the rest."""
    begun = setup.stamps / "dependencies.begun"
    repair = ["--reinstall"] if begun.exists() else []  # one may be half there
    begun.touch()
    setup.run(line, [setup.python, "-m", "pip", "install", "--require-hashes", "-r", setup.requirement("uv")])
    # The next stack's lock leaves out what tf-keras asks for: a second TensorFlow over tensorflow-cpu's files.
    whole = ["--no-deps"] if setup.stack == "next" else []
    leave_out = ["--excludes", setup.requirement("horovod")]
    setup.install(line, *repair, *whole, "--require-hashes", *leave_out, "-r", setup.lock)
    begun.unlink()


def make_horovod(setup: Setup, line: Line) -> str:
    """Horovod from the user's cache, or compiled into it; it counts once it was seen to work."""
    wheel, origin = setup.wheel, "from the cache"
    with locked(wheel.parent / "lock"):
        if not intact(wheel):
            origin = "compiled, and kept in the cache"
            build_horovod(setup, line)
        setup.install(line, "--no-deps", "--reinstall", wheel)
        try:
            setup.run(line, [setup.python, "-c", "import horovod.tensorflow as hvd; assert hvd.gloo_built()"])
        except CommandError:
            wheel.unlink()  # so that the next set-up compiles it afresh
            raise
    return origin


def build_horovod(setup: Setup, line: Line) -> None:
    check_compilers(setup)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    jobs = max(1, min(len(os.sched_getaffinity(0)), int(memory_gib / 2)))  # 1.5 GiB a compiler
    on = [
        "WITH_TENSORFLOW",
        "WITH_GLOO",
        "WITHOUT_PYTORCH",
        "WITHOUT_MXNET",
        "WITH_MPI" if setup.mpi else "WITHOUT_MPI",
    ]
    flags = {f"HOROVOD_{name}": "1" for name in on}
    if setup.collectives == "gpu-nccl":
        flags["HOROVOD_GPU_OPERATIONS"] = "NCCL"
    with (
        tempfile.TemporaryDirectory(dir=setup.wheel.parent) as building,
        tempfile.TemporaryDirectory() as plain,  # Horovod's build files bear no blank in a path
    ):
        venv = Path(plain) / "venv"
        venv.symlink_to(setup.venv)
        if setup.stack == "next":
            flags["CXXFLAGS"] = f"{os.environ.get('CXXFLAGS', '')} {next_headers(setup, Path(plain))}".strip()
        pip = [venv / "bin" / "python", "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps"]
        pip += ["--no-cache-dir", "--require-hashes", "-r", setup.requirement("horovod"), "-w", building]
        setup.run(line, pip, MAKEFLAGS=f"-j{jobs}", TMPDIR=plain, **flags)
        os.replace(next(Path(building).glob("horovod-*.whl")), setup.wheel)


def next_headers(setup: Setup, plain: Path) -> str:
    """Options with which Horovod 0.28.1 compiles against TensorFlow 2.21: where headers are that it does not find."""
    ours, packages = plain / "include", next((setup.venv / "lib").glob("python3.*/site-packages"))
    ours.symlink_to(setup.root / "tools" / "include")
    external = plain / "venv" / packages.relative_to(setup.venv) / "tensorflow" / "include" / "external"
    return " ".join(f"-I{path}" for path in (ours, external / "highwayhash", external / "farmhash_archive" / "src"))


def make_package(setup: Setup, line: Line) -> None:
    setup.install(line, "--no-deps", "--no-build-isolation", "--editable", setup.root)
    if setup.stack == "next":
        (next((setup.venv / "lib").glob("python3.*/site-packages")) / "ddl-next.pth").write_text(f"{LEGACY_KERAS}\n")


def make_data(setup: Setup, line: Line) -> str:
    """CIFAR-10 where it can be had; every lesson works with the generated pictures too."""
    fetch = [setup.venv / "bin" / "ddl", "data", "fetch"]
    try:
        setup.run(line, [*fetch, "cifar10"])
    except CommandError as error:
        setup.run(line, [*fetch, "synthetic"])
        return f"generated pictures, as CIFAR-10 can't be had here (why: {error.log})"
    return "CIFAR-10"


def make_torch(setup: Setup, line: Line) -> str:
    """PyTorch, beside what the lock pins: by pip, whose settings say where CPU wheels are, which uv does not read."""
    folder = setup.root / "build" / "setup"
    folder.mkdir(parents=True, exist_ok=True)
    constraints, report = folder / "constraints.txt", folder / "torch.json"
    constraints.write_text("\n".join(re.findall(r"^(\S+==.*) \\$", setup.lock.read_text(), re.MULTILINE)))
    install = [setup.python, "-m", "pip", "install", "--constraint", constraints, setup.torch_pin]
    try:
        setup.run(line, [*install, "--dry-run", "--report", report])
        planned = {each["metadata"]["name"]: each["metadata"] for each in json.loads(report.read_text())["install"]}
        require(
            setup.accelerator == "gpu" or not any(name.startswith("nvidia-") for name in planned),
            "pip would take PyTorch's build for GPUs, with gigabytes of CUDA. Name the index for CPU wheels that "
            "PyTorch's installation page names: PIP_EXTRA_INDEX_URL=… make setup TORCH=1",
        )
        setup.run(line, install)
    except CommandError as error:
        error.args = (f"{error}\ntorch: it is an extra: all else is set up, and `make lab` works without TORCH=1.",)
        raise
    return f"PyTorch {planned['torch']['version']}" if "torch" in planned else ""


def check(setup: Setup, names: set[str]) -> None:
    """Find what is missing before minutes are spent on the steps in front of it."""
    if "python" in names and not setup.python.exists():
        require(
            succeeds(sys.executable, "-c", "import ensurepip, venv"),
            f"{sys.executable} cannot make virtual environments: `apt install python3.{sys.version_info[1]}-venv` "
            f"adds that, or name another Python {setup.pythons} with PYTHON=/path/to/python.",
        )
    if "horovod" in names and not setup.wheel.exists():
        check_compilers(setup)
    if "dependencies" in names:
        need_gib = NEED_GIB[setup.accelerator]
        for folder in (setup.venv, cache_dir()):
            free_gib = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free / GIB
            require(
                free_gib >= need_gib,
                f"{folder} has {free_gib:.1f} GiB of free disk space and needs {need_gib} GiB: "
                "free some, or choose another place with VENV=DIR or XDG_CACHE_HOME=DIR.",
            )


def check_compilers(setup: Setup) -> None:
    compilers = (os.environ.get("CXX", "c++"), "g++", "clang++")
    for what, names in (("C++ compiler", compilers), ("make", ("make",))):
        require(
            any(map(shutil.which, names)),
            f"Horovod has to be compiled and there is no {what}: `apt install build-essential`, "
            "`dnf install gcc-c++ make` or `conda install cxx-compiler make` gets one.",
        )
    require(
        not setup.mpi or shutil.which("mpicxx"),
        "DDL_MPI=1 asks for Horovod with MPI and there is no mpicxx: `apt install libopenmpi-dev` "
        "or your cluster's `module load` of an MPI gets one.",
    )


def chosen(venv: Path) -> Setup:
    """What is asked for, else what the environment was made for, else what this machine has."""
    stamps = venv / "ddl-setup"
    accelerator, mpi = os.environ.get("DDL_ACCELERATOR"), os.environ.get("DDL_MPI")
    stack = chosen_stack(stamps, os.environ.get("DDL_STACK"))
    with contextlib.suppress(OSError):  # so that one home serves login nodes and GPU nodes alike
        accelerator = accelerator or (stamps / "accelerator").read_text()
    if stack == "default" and not accelerator and gpus_answer():
        accelerator = "gpu"
    mpi, torch = (
        bool(mpi) or (stamps / "mpi").exists(),
        bool(os.environ.get("DDL_TORCH")) or (stamps / "torch").exists(),
    )
    return Setup(venv, accelerator or "cpu", mpi=mpi, torch=torch, stack=stack)


def chosen_stack(stamps: Path, asked: str | None) -> str:
    """The stack that is asked for; an environment holds one, so it may not be another than it has."""
    made_before = (stamps / "python").exists()
    had = "next" if (stamps / "next").exists() else "default" if made_before else None
    require(
        not (asked and had) or asked == had,
        f"{stamps.parent} has the {had} stack: leave STACK={asked} out, or name another folder with VENV=DIR.",
    )
    return asked or had or "default"


def gpus_answer() -> bool:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30).stdout.startswith(b"GPU ")
    return False


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddl"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that two set-ups never make one thing at once. (`ddl.records.files` is not installed yet.)"""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"set-up  waiting for another set-up, which holds {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def intact(wheel: Path) -> bool:
    """Whether a wheel is there and every file in it matches its checksum."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error):
        return False


def succeeds(*command: str | Path) -> bool:
    with contextlib.suppress(OSError):
        return not subprocess.run(command, capture_output=True, check=False).returncode
    return False


def require(condition: object, sentence: str) -> None:
    if not condition:
        raise SetupError(sentence)


def set_up(setup: Setup, names: Sequence[str] = ()) -> None:
    """Make what is not there yet of these steps, or of all."""
    if not (todo := pending(setup, names)):
        return
    check(setup, {step.name for step in todo})
    with locked(setup.root / "build" / "setup.lock"):
        for step in pending(setup, names):
            line = Line("set-up", step.name)
            note = step.make(setup, line)
            setup.stamps.mkdir(exist_ok=True)
            (setup.stamps / "accelerator").write_text(setup.accelerator)
            for name in ("mpi",) * setup.mpi + ("next",) * (setup.stack == "next"):
                (setup.stamps / name).touch()
            (setup.stamps / step.name).write_text(step.key)
            line.end(note or "")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        venv = Path(os.path.abspath(arguments[0] if arguments else ROOT / ".venv"))
        set_up(chosen(venv), arguments[1:])
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
    except CommandError as error:
        print(f"\nset-up: {error}\nset-up: `make setup` goes on from this step.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nset-up: interrupted; `make setup` goes on from here.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
