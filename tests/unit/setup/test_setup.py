"""The set-up's own decisions: tools/setup.sh on a machine of stand-ins, where uv and Python write down what they do."""

import fcntl
import os
import re
import shutil
import subprocess
import sys

import pytest

from helpers import ROOT, SETTING_UP, program

pytestmark = pytest.mark.slow(*SETTING_UP)
NEEDED = ["tools/setup.sh", "tools/horovod_source.sh", "pyproject.toml", "source_code/pyproject.toml"]
NEEDED += ["requirements.lock", "requirements-gpu.lock", "requirements-next.lock"]
# What set-up changes in Horovod's sources, and where it only looks.
SOURCES = {
    "setup.py": "config = 'RelWithDebInfo'\n",
    "CMakeLists.txt": """\
set(CMAKE_CXX_FLAGS "-pthread -fPIC -Wall")
    add_subdirectory(third_party/gloo)
    target_compile_definitions(gloo PRIVATE _GLIBCXX_USE_CXX11_ABI=1)
add_subdirectory(third_party/compatible17_gloo)
""",
    "third_party/flatbuffers/include/flatbuffers/stl_emulation.h": """\
before
  span &operator=(const span &other)
      NOEXCEPT {
    data_ = other.data_;
  }
after
""",
    "horovod/common/ops/cuda/CMakeLists.txt": "",
    "horovod/tensorflow/CMakeLists.txt": """\
list(APPEND TF_SOURCES "mpi_ops.cc")
list(APPEND TF_SOURCES "xla_mpi_ops.cc")
add_library(${TF_TARGET_LIB} SHARED ${SOURCES} ${TF_SOURCES})
""",
    "horovod/common/gloo/gloo_context.cc": "",
    "build.make": "".join(f"Building CXX object {number}.o\n" for number in range(25)),
}
SYSTEM = "awk cat cp cut df dirname env find flock grep gzip head ln mkdir mktemp mv nproc printf rm sed sh"
SYSTEM += " sha256sum sleep sort tar tee timeout touch tr uname wc"
# What each stand-in writes down is its own name and arguments.
UV = """#!/bin/sh
echo "uv $*" >>"$LOG"
case $1 in
cache) echo "$HOME/uv-cache" ;;
venv)
    for venv; do :; done
    [ ! -e "$venv" ] || [ -e "$venv/pyvenv.cfg" ] || exit 2  # as uv does
    [ ! -e "$HOME/no-python" ] || exit 2
    rm -rf "$venv" && mkdir -p "$venv/bin" && touch "$venv/pyvenv.cfg"
    cp "$HOME/python" "$venv/bin/python" && cp "$HOME/ddl" "$venv/bin/ddl" ;;
pip)
    [ ! -e "$HOME/fails" ] || { cat "$HOME/fails" && exit 2; }
    while [ "$#" -gt 0 ] && [ "$1" != --target ]; do shift; done
    [ "$#" = 0 ] || mkdir -p "$2/nvidia/cu13/lib" ;;
python) exit 2 ;;
esac
"""
PYTHON = """#!/bin/sh
case $* in
*sys.exit* | *cache_tag*) exit ;;
*"pip download"*)
    echo "python $*" >>"$LOG"
    while [ "$1" != --dest ]; do shift; done
    cp "$HOME/horovod-1.0.tar.gz" "$2" && exit ;;
*"pip wheel"*)
    echo "python $* MPI=$HOROVOD_WITH_MPI CXXFLAGS=$CXXFLAGS" >>"$LOG"
    echo "GPU=$HOROVOD_GPU_OPERATIONS FOR=$HOROVOD_BUILD_CUDA_CC_LIST IN=$HOROVOD_RPATH" >>"$LOG"
    for source; do :; done
    cp -R "$source" "$HOME/compiled" && cat "$source/build.make" && echo "a line of many" ;;
*) echo "python $*" >>"$LOG" && exit ;;
esac
while [ "$1" != --wheel-dir ]; do shift; done
mkdir "$2" && touch "$2/horovod-1.0.whl"
[ ! -e "$HOME/compiling-fails" ] || { cat "$HOME/compiling-fails" && exit 2; }
"""
DDL = '#!/bin/sh\necho "ddl $*" >>"$LOG"\n[ "$3" != cifar10 ]\n'


class Machine:
    """A course's folder and a home, in which only the stand-ins and the system's small programs are found."""

    def __init__(self, folder):
        self.course, self.home, self.log = folder / "a course", folder / "home", folder / "log"
        for name in NEEDED:
            (self.course / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.course / name)
        self.temporary = folder / "temporary"
        for path in (self.home, self.temporary, folder / "bin"):
            path.mkdir()
        for name in SYSTEM.split():
            (folder / "bin" / name).symlink_to(shutil.which(name))
        self.path = folder / "bin"
        version = re.search(r"^uv==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)[1]
        self.uv = self.home / f".cache/ddl/uv-{version}/bin/uv"
        program(self.uv, UV)
        for name, text in SOURCES.items():
            (folder / "horovod" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "horovod" / name).write_text(text)
        shutil.make_archive(self.home / "horovod-1.0", "gztar", folder, "horovod")
        program(self.home / "python", PYTHON)
        program(self.home / "ddl", DDL)
        program(self.path / "g++", "")

    def start(self, *arguments, **variables):
        """Start the set-up."""
        self.log.write_text("")
        environment = {"PATH": str(self.path), "HOME": str(self.home), "LOG": str(self.log)}
        environment |= {"TMPDIR": str(self.temporary), **variables}
        command = [self.path / "sh", self.course / "tools/setup.sh", *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, cwd=self.course, env=environment, text=True, **streams)

    def __call__(self, *arguments, **variables):
        """Run the set-up; return its status, what it printed, and what the stand-ins did."""
        process = self.start(*arguments, **variables)
        printed, _ = process.communicate()
        assert list(self.temporary.iterdir()) == [], "temporary files were left"
        return process.returncode, printed, self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_finished_setup_does_nothing(machine):
    status, printed, done = machine()
    assert status == 0, printed
    venv = machine.course / ".venv"
    assert [line for line in done if line.startswith("uv venv")] == [f"uv venv --seed --python 3.11 {venv}"]
    (locked,) = [line for line in done if "requirements.lock" in line]
    assert "--require-hashes" in locked and "--no-deps" in locked
    assert done[-2:] == ["ddl data fetch cifar10", "ddl data fetch synthetic"] and "generated images" in printed
    download, compiled = (line for line in done if "pip download" in line or "pip wheel" in line)
    assert "--require-hashes" in download and "MPI= " in compiled
    assert machine() == (0, "", [])


def test_setup_repeats_after_changes(machine, tmp_path):
    machine()
    with open(machine.course / "requirements.lock", "a") as lock:
        lock.write("# a change\n")
    assert any("requirements.lock" in line for line in machine()[2])
    assert machine() == (0, "", [])
    again = machine(DDL_TORCH="1")[2]
    assert any("pip install" in line and "torch==" in line for line in again)
    assert machine() == (0, "", []), "PyTorch stays without being asked for again"
    machine.course.rename(tmp_path / "moved")
    machine.course = tmp_path / "moved"
    assert any(line.startswith("uv venv") for line in machine()[2])


def test_interrupted_setup_installs_again(machine):
    (machine.home / "fails").touch()
    status, printed, _ = machine()
    assert status == 2 and "`make setup` again" in printed
    (machine.home / "fails").unlink()
    status, _, done = machine()
    assert status == 0 and any(line.startswith("uv venv --seed") for line in done)


def test_horovods_changed_sources_are_compiled_with_a_count_of_files(machine):
    status, printed, _ = machine()
    assert status == 0 and re.findall(r"file (\d+) of 25\n", printed) == ["1", "5", "10", "15", "20", "25"], printed
    log = (machine.course / "build/setup/horovod.log").read_text()
    assert "a line of many" in log and "a line of many" not in printed
    compiled = {name: (machine.home / "compiled" / name).read_text() for name in SOURCES}
    flags, gloo, *rest = compiled["CMakeLists.txt"].splitlines()
    assert "-include stdexcept -include cstdint" in flags
    assert gloo == "add_subdirectory(third_party/compatible17_gloo)" and "UNITY_BUILD ON" in rest[0]
    library = compiled["horovod/tensorflow/CMakeLists.txt"].split("\n")
    assert library[1:4] == ["if(HAVE_CUDA OR HAVE_ROCM)", '    list(APPEND TF_SOURCES "xla_mpi_ops.cc")', "endif()"]
    assert library[4] == "add_library(${TF_TARGET_LIB} SHARED ${TF_SOURCES} ${SOURCES})"
    assert compiled["third_party/flatbuffers/include/flatbuffers/stl_emulation.h"] == "before\nafter\n"
    assert compiled["setup.py"] == "config = 'Release'\n"


def test_failed_compile_names_the_first_error_and_the_log_and_keeps_the_packages(machine):
    errors = "warning\n" * 4000 + "common.h:343: error: first\nx.h:5: error: second\n"
    (machine.home / "compiling-fails").write_text(errors)
    status, printed, _ = machine()
    assert status and "common.h:343: error: first" in printed and "build/setup/horovod.log" in printed
    assert "second" not in printed and "certificate" not in printed and "warning" not in printed
    (machine.home / "compiling-fails").unlink()
    status, _, done = machine()
    assert status == 0 and not any(line.startswith("uv venv") for line in done)


@pytest.mark.parametrize("said", ["invalid peer certificate: UnknownIssuer", "Connection refused (os error 111)"])
def test_certificates_are_advised_on_after_their_errors_only(machine, said):
    (machine.home / "fails").write_text(f"error: Failed to fetch: {said}\n")
    status, printed, _ = machine()
    assert status and said in printed and ("SSL_CERT_FILE=" in printed) == ("certificate" in said), printed


def test_horovod_is_compiled_once_for_each_set_of_options(machine):
    def compiles(*arguments, **variables):
        status, printed, done = machine(*arguments, **variables)
        assert any(".whl" in line for line in done) == (status == 0), printed
        return any("pip wheel" in line for line in done)

    (machine.home / "compiling-fails").touch()
    assert compiles()
    (machine.home / "compiling-fails").unlink()
    assert compiles(), "what is half made is made again"
    (machine.path / "g++").unlink()
    assert not compiles("other")
    program(machine.path / "g++", "")
    program(machine.path / "mpicxx", "")
    assert compiles("third", DDL_MPI="1")
    assert not compiles("fourth")


def test_a_conda_environment_is_taken_as_it_is(machine):
    """Its prefix is its own, and no other one's."""
    code = "import sys; sys.prefix = sys.base_prefix = sys.argv[1]; $2"
    own = f'case $* in\n*sys.exit*) exec "{sys.executable}" -c "{code}" "$3" ;;\n'
    program(machine.course / "conda/bin/python", PYTHON.replace("case $* in\n", own))
    program(machine.course / "conda/bin/ddl", DDL)
    (machine.home / "fails").touch()
    assert machine("conda")[0] == 2
    (machine.home / "fails").unlink()
    status, printed, done = machine("conda")
    assert status == 0, printed
    assert not any(line.startswith("uv venv") for line in done) and any("--reinstall" in line for line in done)


def test_the_next_stack_has_its_own_lock_headers_and_keras(machine):
    venv = machine.course / ".venv-next"
    packages = venv / "lib/python3.13/site-packages"
    for name in ("highwayhash", "farmhash_archive/src"):
        (packages / "tensorflow/include/external" / name).mkdir(parents=True)
    program(venv / "bin/python", PYTHON)
    program(venv / "bin/ddl", DDL)
    shutil.copytree(ROOT / "tools/include", machine.course / "tools/include")
    status, printed, done = machine(".venv-next", DDL_STACK="next")
    assert status == 0, printed
    assert any("requirements-next.lock" in line and "--excludes" in line for line in done)
    (compiled,) = [line for line in done if "pip wheel" in line]
    assert "CXXFLAGS= -I" in compiled
    assert "TF_USE_LEGACY_KERAS" in (packages / "ddl-next.pth").read_text()
    assert machine(".venv-next") == (0, "", []), "it needs not be named again"


def nvidia_smi(machine, listed="GPU 0: one\nGPU 1: two", queried="", status=0):
    """Make a stand-in of nvidia-smi, which prints this, and warns on standard error."""
    case = f"case $1 in -L) echo '{listed}' ;; *) echo '{queried}' ;; esac"
    program(machine.path / "nvidia-smi", f"#!/bin/sh\necho ld.so: not preloaded >&2\n{case}\nexit {status}\n")


@pytest.mark.parametrize(
    "queried, wheel",
    [
        ("580.159.04, 9.0\n580.159.04, 8.0\n580.159.04, 9.0", "GPU=NCCL FOR=80,90 IN=$ORIGIN/../../nvidia/nccl/lib"),
        ("535.161.08, 8.0", "GPU= FOR= IN="),  # NVIDIA's compiler in packages needs 580
        ("580.159.04, 7.0", "GPU= FOR= IN="),  # and compute capability 7.5
        ("", "GPU= FOR= IN="),
    ],
)
def test_gpus_and_driver_decide_how_horovod_averages(machine, queried, wheel):
    nvidia_smi(machine, queried=queried)
    status, printed, done = machine()
    assert status == 0 and any("requirements-gpu.lock" in line for line in done), printed
    assert wheel in done and printed.count("Gloo") == ("NCCL" not in wheel), printed
    assert any("--target" in line for line in done) == ("NCCL" in wheel)


def test_two_ranks_can_share_a_machines_only_gpu(machine):
    nvidia_smi(machine, listed="GPU 0: one", queried="580.159.04, 9.0")
    status, printed, done = machine()
    assert status == 0 and "GPU= FOR= IN=" in done and "Gloo" not in printed, printed


def test_wheel_for_other_gpus_or_none_is_another(machine):
    nvidia_smi(machine, queried="580.159.04, 9.0")
    assert any("FOR=90" in line for line in machine()[2]) and machine() == (0, "", [])
    nvidia_smi(machine, queried="580.159.04, 7.5")
    assert any("FOR=75" in line for line in machine("other")[2])
    done = machine("third", DDL_ACCELERATOR="cpu")[2]
    assert "GPU= FOR= IN=" in done and not any("requirements-gpu.lock" in line for line in done)


def test_local_cuda_toolkit_with_nccl_is_used(machine):
    nvidia_smi(machine, queried="535.161.08, 8.0")
    program(machine.path / "nvcc", "#!/bin/sh\necho release 12.2\n")
    program(machine.home / "nccl/include/nccl.h", "")
    status, printed, done = machine(HOROVOD_NCCL_HOME=str(machine.home / "nccl"))
    assert status == 0 and "GPU=NCCL FOR= IN=" in done and "Gloo" not in printed, printed


@pytest.mark.parametrize(
    "listed, queried, ends, sentence",
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "", 18, "library version mismatch"),
        ("GPU 0: one\nUnable to determine the device handle: GPU is lost.", "", 15, "handle: GPU is lost"),
        ("No devices found.", "", 0, "No devices found"),
        ("", "", 9, "not preloaded"),
        ("GPU 0: one\nGPU 1: new", "570.1.2, 9.0\n570.1.2, 12.0", 0, "compute capability 12.0"),
        ("GPU 0: one", "470.1.2, 8.0", 0, "driver 470"),
    ],
)
def test_unusable_gpus_stop_the_setup_before_a_download(machine, listed, queried, ends, sentence):
    nvidia_smi(machine, listed, queried, ends)
    status, printed, done = machine()
    assert status == 1 and sentence in printed and "DDL_ACCELERATOR=cpu" in printed and done == [], printed


# Stands in for the system's Python, whose virtual environment has this pip.
PYTHON3 = """#!/bin/sh
case $* in
"-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
*"config list"*) cat "$HOME/pip.conf" ;;
*) echo "pip USER=$PIP_USER TO=${PIP_TARGET-}${PIP_PREFIX-}${PIP_REQUIRE_VIRTUALENV-}" >>"$LOG" && cp "$HOME/uv" "${0%/*}/uv" ;;
esac
"""


def test_settings_of_pip_reach_uv_and_move_no_packages(machine):
    machine.uv.rename(machine.home / "uv")
    text = (machine.home / "uv").read_text().replace("pip)\n", 'pip)\n    echo "index $UV_DEFAULT_INDEX" >>"$LOG"\n')
    program(machine.home / "uv", text)
    shutil.rmtree(machine.uv.parents[1])
    program(machine.path / "python3", PYTHON3)
    (machine.home / "pip.conf").write_text("global.index-url='one'\ninstall.index-url='mirror'\n")
    elsewhere = {f"PIP_{name}": "elsewhere" for name in ("USER", "TARGET", "PREFIX", "REQUIRE_VIRTUALENV")}
    status, printed, done = machine(**elsewhere)
    assert status == 0 and "pip USER=0 TO=" in done and "index mirror" in done, printed
    (machine.home / "pip.conf").write_text("global.find-links='folder'\nglobal.no-index='true'\n")
    (machine.home / "fails").touch()
    status, printed, done = machine("other")
    assert status == 2 and "find-links, no-index" in printed and "UV_DEFAULT_INDEX" in printed and "index " in done


def test_file_system_without_locks_is_said_once(machine):
    (machine.path / "flock").unlink()
    program(machine.path / "flock", "#!/bin/sh\necho flock: 9: No locks available >&2\nexit 71\n")
    status, printed, _ = machine()
    assert status == 0 and printed.count("without locks") == 1 and "waiting" not in printed, printed


def test_simultaneous_setups_take_turns(machine):
    with open(machine.home / ".cache/ddl/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = machine.start()
        assert process.stdout.readline() == "set-up: waiting for another set-up of yours\n"
        assert machine.log.read_text() == ""
    process.communicate()
    assert process.returncode == 0 and "requirements.lock" in machine.log.read_text()


ELSEWHERE = {  # what a program says there
    "x86_64": ("uname", "case $1 in -s) echo Linux ;; *) echo aarch64 ;; esac"),
    "space": ("df", "echo head; for f in a b; do echo disk 9000000 8000000 1000000 90% /home; done"),
}


@pytest.mark.parametrize(
    "missing, arguments, variables, sentence",
    [
        ("uv", [], {}, "no Python can make virtual environments: `apt install python3-venv`"),
        ("g++", [], {}, "there is no C++ compiler: `apt install g++`"),
        (None, ["tools"], {}, "has no working Python 3.11: delete it, or name another VENV."),
        (None, [], {"DDL_MPI": "1"}, "there is no mpicxx"),
        (None, [], {"DDL_STACK": "next", "DDL_ACCELERATOR": "gpu"}, "the next stack runs on CPUs only"),
        ("x86_64", [], {}, "docker run --platform linux/amd64"),
        ("python", [], {}, "use `make lab STACK=next`, which takes any Python"),
        ("space", [], {}, "this needs 5.0 GB of disk, and /home has 1.0 GB"),
        (None, [], {"HOME": "/proc"}, "is not writable: name another folder with XDG_CACHE_HOME=DIR"),
    ],
)
def test_setup_error_is_one_sentence(machine, missing, arguments, variables, sentence):
    if missing in ELSEWHERE:
        name, does = ELSEWHERE[missing]
        (machine.path / name).unlink()
        program(machine.path / name, f"#!/bin/sh\n{does}\n")
    elif missing == "python":
        (machine.home / "no-python").touch()
    elif missing:
        (machine.uv if missing == "uv" else machine.path / missing).unlink()
    status, printed, done = machine(*arguments, **variables)
    assert status == 1 and sentence in " ".join(printed.split())
    assert not any("requirements" in line for line in done)


def test_interrupted_environment_is_not_reused(machine):
    python = machine.course / ".venv/bin/python"  # without pyvenv.cfg it is the Python that it links to
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    status, printed, done = machine()
    assert status == 0, printed
    assert any(line.startswith("uv venv --seed") for line in done), "packages would go to that Python"
