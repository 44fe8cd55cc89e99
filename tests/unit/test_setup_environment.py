"""The set-up's steps: what is missing is named, what is done stays done, no wheel is half made."""

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import environment
import pytest
from environment import Setup, SetupError, Step
from line import CommandError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """A set-up in an empty folder, with the course's own locks and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DDL_ACCELERATOR", raising=False)
    root = tmp_path / "course"
    root.mkdir()
    for name in ("requirements.lock", "requirements-gpu.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    return Setup(root / ".venv", "cpu", root)


@pytest.fixture
def commands(monkeypatch):
    """The commands that a set-up would run, recorded instead of run."""
    ran = []
    monkeypatch.setattr(Setup, "run", lambda self, line, command, **env: ran.append((command, env)))
    return ran


LINE = SimpleNamespace(name="step", log=None)


def stamp_all(setup, monkeypatch):
    """Finish a set-up whose every step does nothing."""
    real = environment.steps
    monkeypatch.setattr(
        environment, "steps", lambda setup: [Step(s.name, s.key, lambda setup, line: None) for s in real(setup)]
    )
    monkeypatch.setattr(environment, "check", lambda setup, names: None)
    setup.venv.mkdir()
    environment.set_up(setup)


# What is missing


def test_a_python_that_makes_no_environments_names_the_package(setup, monkeypatch):
    monkeypatch.setattr(environment, "succeeds", lambda *command: False)
    with pytest.raises(SetupError, match=r"python3\.11-venv"):
        environment.check(setup, {"python"})


@pytest.mark.parametrize(("gone", "named"), [("c++ g++ clang++", r"C\+\+ compiler"), ("make", "make")])
def test_a_missing_compiler_is_named_before_anything_is_installed(setup, monkeypatch, gone, named):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in gone.split() else name)
    with pytest.raises(SetupError, match=f"no {named}: .*build-essential") as error:
        environment.check(setup, {"horovod"})
    assert "\n" not in str(error.value)


def test_a_cached_wheel_needs_no_compiler(setup, monkeypatch):
    setup.wheel.parent.mkdir(parents=True)
    setup.wheel.touch()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    environment.check(setup, {"horovod"})


def test_too_little_disk_space_is_told_with_place_and_amount(setup, monkeypatch):
    usage = SimpleNamespace(free=1.5 * 2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(SetupError, match=r"\.venv has 1\.5 GiB .* needs 4 GiB"):
        environment.check(setup, {"dependencies"})


def test_another_accelerator_than_cpu_and_gpu_is_refused(tmp_path):
    with pytest.raises(SetupError, match="DDL_ACCELERATOR=tpu"):
        Setup(tmp_path, "tpu")


def test_what_is_missing_is_one_line_without_a_traceback(tmp_path):
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "environment.py", tmp_path],
        env=os.environ | {"DDL_ACCELERATOR": "tpu"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr == "set-up: DDL_ACCELERATOR=tpu is neither cpu nor gpu.\n"


# Steps


def test_a_finished_set_up_has_nothing_left_to_do(setup, monkeypatch):
    stamp_all(setup, monkeypatch)
    assert environment.pending(setup) == []


def test_an_interrupted_set_up_goes_on_where_it_stopped(setup, monkeypatch):
    made, interrupt = [], True

    def make(name):
        def run(setup, line):
            if name == "second" and interrupt:
                raise KeyboardInterrupt
            made.append(name)

        return Step(name, "key", run)

    monkeypatch.setattr(environment, "check", lambda setup, names: None)
    monkeypatch.setattr(environment, "steps", lambda setup: list(map(make, ["first", "second", "third"])))
    setup.venv.mkdir()
    with pytest.raises(KeyboardInterrupt):
        environment.set_up(setup)
    interrupt = False
    environment.set_up(setup)
    assert made == ["first", "second", "third"]


def test_some_steps_can_be_asked_for_and_an_unknown_one_is_refused(setup):
    some = environment.pending(setup, ["horovod", "python"])
    assert [step.name for step in some] == ["python", "horovod"]
    with pytest.raises(SetupError, match="date is not one of the steps: python, dependencies, "):
        environment.set_up(setup, ["date"])


def test_mpi_is_asked_for_and_remembered_and_has_a_wheel_of_its_own(setup, monkeypatch):
    monkeypatch.delenv("DDL_MPI", raising=False)
    assert not environment.mpi(setup.venv)
    monkeypatch.setenv("DDL_MPI", "1")
    assert environment.mpi(setup.venv)
    with_mpi = Setup(setup.venv, "cpu", setup.root, mpi=True)
    assert with_mpi.wheel.parent != setup.wheel.parent
    stamp_all(with_mpi, monkeypatch)
    monkeypatch.delenv("DDL_MPI")
    assert environment.mpi(setup.venv)


def test_mpi_without_its_compiler_is_refused_before_anything_is_done(setup, monkeypatch):
    monkeypatch.setattr(environment, "check_compiler", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupError, match="DDL_MPI=1 .* no mpicxx: `apt install libopenmpi-dev`"):
        environment.check(Setup(setup.venv, "cpu", setup.root, mpi=True), {"horovod"})


@pytest.mark.parametrize(
    ("change", "repeated"),
    [
        (lambda text: text + "# changed\n", {"dependencies"}),
        (lambda text: text.replace("horovod==0.28.1", "horovod==0.28.2"), {"dependencies", "horovod"}),
        (lambda text: text.replace("tensorflow-cpu==2.15.1", "tensorflow-cpu==2.15.0"), {"dependencies", "horovod"}),
    ],
)
def test_a_changed_lock_repeats_what_depends_on_it(setup, monkeypatch, change, repeated):
    stamp_all(setup, monkeypatch)
    setup.lock.write_text(change(setup.lock.read_text()))
    assert {step.name for step in environment.pending(setup)} == repeated


def test_a_moved_course_is_set_up_anew(setup, monkeypatch):
    stamp_all(setup, monkeypatch)
    moved = setup.root.rename(setup.root.with_name("elsewhere"))
    again = Setup(moved / ".venv", "cpu", moved)
    assert {step.name for step in environment.pending(again)} == {"python", "package"}


def test_an_environment_that_works_is_used_as_it_is(setup, commands, tmp_path):
    python = tmp_path / "conda" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment.make_python(Setup(tmp_path / "conda", "cpu", setup.root), LINE)
    assert commands == []


def test_a_folder_of_someone_else_is_not_overwritten(setup, commands, tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(SetupError, match="mine is no working Python"):
        environment.make_python(Setup(tmp_path / "mine", "cpu", setup.root), LINE)


def test_dependencies_are_checked_against_their_hashes_and_leave_horovod_out(setup, monkeypatch):
    installed = []

    def run(self, line, command, **env):
        installed.append((command, Path(command[-1]).read_text()))

    monkeypatch.setattr(Setup, "run", run)
    setup.stamps.mkdir(parents=True)
    environment.make_dependencies(setup, LINE)
    (pip, uv), (rest, packages) = installed
    assert all("--require-hashes" in command for command in (pip, rest))
    assert uv.startswith("uv==") and uv.count("==") == 1
    assert "\ntensorflow-cpu==" in packages and "\nhorovod==" not in packages
    assert "--reinstall" not in rest


def test_dependencies_that_were_interrupted_are_installed_again(setup, monkeypatch, commands):
    setup.stamps.mkdir(parents=True)
    with monkeypatch.context() as patch:

        def interrupted(self, line, command, **env):
            raise KeyboardInterrupt

        patch.setattr(Setup, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.make_dependencies(setup, LINE)
    environment.make_dependencies(setup, LINE)
    assert "--reinstall" in commands[-1][0]


def test_the_accelerator_is_asked_for_remembered_or_found(tmp_path, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: some model'\n")
    smi.chmod(0o755)
    monkeypatch.delenv("DDL_ACCELERATOR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert environment.accelerator(tmp_path) == "cpu"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert environment.accelerator(tmp_path) == "gpu"
    (tmp_path / "ddl-setup").mkdir()
    (tmp_path / "ddl-setup" / "accelerator").write_text("cpu")
    assert environment.accelerator(tmp_path) == "cpu"
    monkeypatch.setenv("DDL_ACCELERATOR", "gpu")
    assert environment.accelerator(tmp_path) == "gpu"


def test_data_that_cannot_be_had_is_generated(setup, monkeypatch):
    asked = []

    def run(self, line, command, **env):
        asked.append(command[-1])
        if command[-1] == "cifar10":
            (setup.root / "log").touch()
            raise CommandError("data", 1, setup.root / "log")

    monkeypatch.setattr(Setup, "run", run)
    assert "generated" in environment.make_data(setup, LINE)
    assert asked == ["cifar10", "synthetic"]


def test_a_mirror_and_certificates_that_pip_knows_reach_uv(setup, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "mirror")
    monkeypatch.setenv("PIP_CERT", "certificates")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("MAKEFLAGS", "n")
    seen = []
    line = SimpleNamespace(name="step", run=lambda command, log, env: seen.append(env))
    setup.run(line, ["true"])
    assert seen[0]["UV_DEFAULT_INDEX"] == "mirror"
    assert seen[0]["SSL_CERT_FILE"] == "certificates"
    assert seen[0]["PYTHONNOUSERSITE"] == "1" and "MAKEFLAGS" not in seen[0]


# Horovod's wheel


def write_wheel(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", "text = 1\n" * 1000)


def test_the_wheel_is_kept_by_all_that_the_binary_depends_on(setup, tmp_path, monkeypatch):
    gpu = Setup(setup.venv, "gpu", setup.root)
    places = {setup.wheel, gpu.wheel}
    (tmp_path / "cuda" / "include").mkdir(parents=True)
    (tmp_path / "cuda" / "include" / "nccl.h").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    places.add(gpu.wheel)
    for old, new in (("horovod==0.28.1", "horovod==0.28.2"), ("-cpu==2.15.1", "-cpu==2.15.0")):
        setup.lock.write_text(setup.lock.read_text().replace(old, new))
        places.add(setup.wheel)
    assert len(places) == 5
    assert all("cp311" in str(place) and str(tmp_path / "cache") in str(place) for place in places)


def test_a_damaged_wheel_is_noticed(tmp_path):
    wheel = tmp_path / "some.whl"
    assert not environment.intact(wheel)
    write_wheel(wheel)
    assert environment.intact(wheel)
    whole = wheel.read_bytes()
    for damaged in (whole[:-30], whole[: len(whole) // 2], b"", whole[:60] + b"\0\0" + whole[62:]):
        wheel.write_bytes(damaged)
        assert not environment.intact(wheel)


def test_a_wheel_is_built_once_and_appears_only_when_it_is_whole(setup, monkeypatch):
    builds, installs = [], []
    setup.wheel.parent.mkdir(parents=True)

    def run(self, line, command, **env):
        if "wheel" in command:
            assert not environment.intact(setup.wheel)
            assert list(Path(command[-1]).iterdir()) == []
            assert env["HOROVOD_WITH_GLOO"] == "1" and env["MAKEFLAGS"].startswith("-j")
            builds.append(command)
            write_wheel(Path(command[-1]) / setup.wheel.name)
        elif "install" in command:
            installs.append(command[-1])

    monkeypatch.setattr(Setup, "run", run)
    assert "compiled" in environment.make_horovod(setup, LINE)
    assert environment.make_horovod(setup, LINE) == "from the cache"
    assert len(builds) == 1 and installs == [setup.wheel] * 2
    assert sorted(path.name for path in setup.wheel.parent.iterdir()) == [setup.wheel.name, "lock"]
    setup.wheel.write_bytes(b"damaged")
    assert "compiled" in environment.make_horovod(setup, LINE)


def test_a_failed_build_leaves_no_wheel(setup, monkeypatch):
    def run(self, line, command, **env):
        (Path(command[-1]) / setup.wheel.name).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Setup, "run", run)
    with pytest.raises(KeyboardInterrupt):
        environment.make_horovod(setup, LINE)
    assert not setup.wheel.exists()


def test_a_wheel_that_does_not_work_is_not_kept(setup, monkeypatch):
    write_wheel(setup.wheel)
    (setup.root / "log").touch()

    def run(self, line, command, **env):
        if "-c" in command:
            raise CommandError("horovod", 1, setup.root / "log")

    monkeypatch.setattr(Setup, "run", run)
    with pytest.raises(CommandError):
        environment.make_horovod(setup, LINE)
    assert not setup.wheel.exists()


def test_two_set_ups_do_not_make_the_same_thing_at_once(tmp_path):
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import environment as e; "
        "from pathlib import Path\n"
        "with e.locked(Path(sys.argv[2])):\n"
        "    print('got it', flush=True); time.sleep(float(sys.argv[3]))"
    )
    argv = [sys.executable, "-c", program, ROOT / "tools", tmp_path / "lock"]
    first = subprocess.Popen([*argv, "30"], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "got it\n"
        second = subprocess.Popen([*argv, "0"], stdout=subprocess.PIPE, text=True)
        assert "waiting for another set-up" in second.stdout.readline()
        time.sleep(0.3)
        assert second.poll() is None
        first.send_signal(signal.SIGKILL)  # a lock does not outlive its holder
        assert second.communicate(timeout=10)[0] == "got it\n"
    finally:
        first.kill()
        first.wait()
        first.stdout.close()
