"""The set-up's steps: what is missing is named, what is done stays done, no wheel is half made."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import environment
from environment import Setup, SetupError, Step
from helpers import ROOT
from line import CommandError

LINE = SimpleNamespace(name="step", log=None)


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """A set-up in an empty folder, with the course's own locks and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CXX", "CXXFLAGS", "DDL_ACCELERATOR", "DDL_MPI", "DDL_STACK", "DDL_TORCH"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "course"
    (root / ".venv" / "ddl-setup").mkdir(parents=True)
    for name in ("requirements.lock", "requirements-gpu.lock", "requirements-next.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    return Setup(root / ".venv", "cpu", root)


@pytest.fixture
def next_setup(setup):
    """The next stack's set-up beside the default one."""
    (setup.root / ".venv-next" / "ddl-setup").mkdir(parents=True)
    return replace(setup, venv=setup.root / ".venv-next", stack="next")


@pytest.fixture
def ran(monkeypatch):
    """The commands of a set-up as (command, variables), recorded; `act` may do something in their place."""

    class Commands(list):
        def act(self, command, variables):
            pass

    commands = Commands()

    def run(setup, line, command, **variables):
        commands.append(([str(word) for word in command], variables))
        commands.act(command, variables)

    monkeypatch.setattr(Setup, "run", run)
    return commands


def fails(setup):
    (setup.root / "log").touch()
    raise CommandError("step", 1, setup.root / "log")


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.fixture
def finish(monkeypatch):
    """A function that finishes a set-up whose every step does nothing."""
    real = environment.steps
    monkeypatch.setattr(environment, "check", lambda setup, names: None)

    def run(setup):
        with monkeypatch.context() as patch:
            patch.setattr(
                environment, "steps", lambda setup: [replace(s, make=lambda setup, line: None) for s in real(setup)]
            )
            environment.set_up(setup)

    return run


def names(steps):
    return [step.name for step in steps]


# What is missing


@pytest.mark.parametrize(
    ("step", "mpi", "lost", "sentence"),
    [
        ("python", False, "", rf"python3\.{sys.version_info[1]}-venv"),
        ("horovod", False, "c++ g++ clang++", r"no C\+\+ compiler: .*build-essential"),
        ("horovod", False, "make", "no make: .*build-essential"),
        ("horovod", True, "mpicxx", "DDL_MPI=1 .* no mpicxx: `apt install libopenmpi-dev`"),
        ("dependencies", False, "", r"\.venv has 1\.5 GiB .* needs 4 GiB"),
    ],
)
def test_what_is_missing_is_named_in_a_line_before_anything_is_done(setup, monkeypatch, step, mpi, lost, sentence):
    monkeypatch.setattr(environment, "succeeds", lambda *command: False)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in lost.split() else name)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1.5 * environment.GIB))
    with pytest.raises(SetupError, match=sentence) as error:
        environment.check(replace(setup, mpi=mpi), {step})
    assert "\n" not in str(error.value)


def test_a_cached_wheel_needs_no_compiler(setup, monkeypatch):
    write_wheel(setup.wheel)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    environment.check(setup, {"horovod"})


def test_a_wrong_request_is_one_line_without_a_traceback(tmp_path):
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "environment.py", tmp_path],
        env=os.environ | {"DDL_ACCELERATOR": "tpu"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr == "set-up: DDL_ACCELERATOR=tpu is neither cpu nor gpu.\n"


# Steps


def test_an_interrupted_set_up_resumes_and_a_finished_one_has_nothing_to_do(setup, monkeypatch):
    made, interrupted = [], [True]

    def make(name):
        def run(setup, line):
            if name == "second" and interrupted.pop():
                raise KeyboardInterrupt
            made.append(name)

        return Step(name, "key", run)

    steps = [make(name) for name in ("first", "second", "third")]
    monkeypatch.setattr(environment, "check", lambda setup, names: None)
    monkeypatch.setattr(environment, "steps", lambda setup: steps)
    with pytest.raises(KeyboardInterrupt):
        environment.set_up(setup)
    interrupted[:] = [False]
    environment.set_up(setup)
    assert made == ["first", "second", "third"] and environment.pending(setup) == []


def test_some_steps_can_be_asked_for_and_an_unknown_one_is_refused(setup):
    assert names(environment.pending(setup, ["horovod", "python"])) == ["python", "horovod"]
    with pytest.raises(SetupError, match="date is not one of the steps: python, dependencies, "):
        environment.set_up(setup, ["date"])


@pytest.mark.parametrize(
    ("old", "new", "repeated"),
    [
        ("absl-py==", "# changed\nabsl-py==", ["dependencies"]),
        ("horovod==0.28.1", "horovod==0.28.2", ["dependencies", "horovod"]),
        ("tensorflow-cpu==2.15.1", "tensorflow-cpu==2.15.0", ["dependencies", "horovod"]),
    ],
)
def test_a_changed_lock_repeats_what_depends_on_it(setup, finish, old, new, repeated):
    finish(setup)
    setup.lock.write_text(setup.lock.read_text().replace(old, new))
    assert names(environment.pending(setup)) == repeated


def test_a_moved_course_is_set_up_anew(setup, finish):
    finish(setup)
    moved = setup.root.rename(setup.root.with_name("elsewhere"))
    assert names(environment.pending(Setup(moved / ".venv", "cpu", moved))) == ["python", "package"]


@pytest.mark.parametrize("works", [True, False])
def test_an_environment_of_someone_else_is_used_as_it_is_or_left_alone(setup, ran, tmp_path, works):
    setup = replace(setup, stack="next")  # which takes the Python of these tests, whatever it is
    python = tmp_path / "conda" / "bin" / "python"
    python.parent.mkdir(parents=True)
    if works:
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        environment.make_python(replace(setup, venv=tmp_path / "conda"), LINE)
    else:
        with pytest.raises(SetupError, match="conda is no working Python"):
            environment.make_python(replace(setup, venv=tmp_path / "conda"), LINE)
    assert ran == []


def test_dependencies_are_checked_against_their_hashes_and_leave_horovod_out(setup, ran):
    environment.make_dependencies(setup, LINE)
    (pip, _), (uv, _) = ran
    assert "--require-hashes" in pip and Path(pip[-1]).read_text().split()[0].startswith("uv==")
    excluded = Path(uv[uv.index("--excludes") + 1]).read_text()
    assert excluded.startswith("horovod==") and excluded.count("==") == 1
    assert "--require-hashes" in uv and uv[-1] == str(setup.lock) and "--reinstall" not in uv


def test_dependencies_that_were_interrupted_are_installed_again(setup, ran):
    ran.act = interrupt
    with pytest.raises(KeyboardInterrupt):
        environment.make_dependencies(setup, LINE)
    del ran.act
    environment.make_dependencies(setup, LINE)
    assert "--reinstall" in ran[-1][0]


def test_accelerator_and_mpi_are_asked_for_remembered_or_found(setup, finish, tmp_path, monkeypatch):
    def chosen():
        setup = environment.chosen(venv)
        return setup.accelerator, setup.mpi

    venv, smi = setup.venv, tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: some model'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert chosen() == ("cpu", False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DDL_MPI", "1")
    assert chosen() == ("gpu", True)
    finish(replace(setup, mpi=True))
    monkeypatch.delenv("DDL_MPI")
    assert chosen() == ("cpu", True)
    monkeypatch.setenv("DDL_ACCELERATOR", "gpu")
    assert chosen() == ("gpu", True)


def test_a_stack_is_asked_for_and_remembered_and_an_environment_keeps_its_own(setup, next_setup, finish, monkeypatch):
    def chosen(setup):
        return environment.chosen(setup.venv).stack

    assert (chosen(setup), chosen(next_setup)) == ("default", "default")
    finish(setup)
    finish(next_setup)
    assert (chosen(setup), chosen(next_setup)) == ("default", "next")
    monkeypatch.setenv("DDL_STACK", "next")
    assert chosen(next_setup) == "next"
    with pytest.raises(SetupError, match=r"\.venv has the default stack: leave STACK=next out"):
        chosen(setup)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [({"stack": "newest"}, "STACK=newest is neither"), ({"stack": "next", "accelerator": "gpu"}, "on CPUs only")],
)
def test_a_stack_that_there_is_not_is_refused(setup, asked, sentence):
    with pytest.raises(SetupError, match=sentence):
        replace(setup, **asked)


def test_the_next_stack_is_installed_as_its_lock_says_and_has_keras_2_in_every_process(next_setup, ran):
    environment.make_dependencies(next_setup, LINE)
    assert ran[-1][0][-1].endswith("requirements-next.lock") and "--no-deps" in ran[-1][0]
    packages = next_setup.venv / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    environment.make_package(next_setup, LINE)
    (line,) = (packages / "ddl-next.pth").read_text().splitlines()
    program = f"{line}; print(os.environ['TF_USE_LEGACY_KERAS'])"
    for given, wanted in (({}, "1"), ({"TF_USE_LEGACY_KERAS": "0"}, "0")):
        assert subprocess.check_output([sys.executable, "-S", "-c", program], env=given, text=True) == f"{wanted}\n"


def test_the_default_stack_sets_no_variable(setup, ran):
    (setup.venv / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    environment.make_package(setup, LINE)
    assert list(setup.venv.rglob("*.pth")) == []


def test_data_that_cannot_be_had_is_generated(setup, ran):
    ran.act = lambda command, variables: command[-1] == "cifar10" and fails(setup)
    assert "generated" in environment.make_data(setup, LINE)
    assert [command[-1] for command, _ in ran] == ["cifar10", "synthetic"]


# PyTorch, an extra


def reports(*names):
    """Return what stands for pip: its dry run plans these packages."""

    def act(command, variables):
        if "--dry-run" in command:
            planned = [{"metadata": {"name": name, "version": "1.0"}} for name in names]
            Path(command[-1]).write_text(json.dumps({"install": planned}))

    return act


def test_pytorch_is_installed_where_it_was_asked_for_and_stays(setup, finish, monkeypatch):
    finish(setup)
    assert "torch" not in names(environment.steps(environment.chosen(setup.venv)))
    monkeypatch.setenv("DDL_TORCH", "1")
    assert names(environment.pending(replace(setup, torch=environment.chosen(setup.venv).torch))) == ["torch"]
    finish(replace(setup, torch=True))
    monkeypatch.delenv("DDL_TORCH")
    assert environment.chosen(setup.venv).torch


def test_pytorch_keeps_to_what_the_lock_pins(setup, ran):
    ran.act = reports("sympy", "torch")
    assert environment.make_torch(setup, LINE) == "PyTorch 1.0"
    dry, real = (command for command, _ in ran)
    assert dry[: len(real)] == real and real[-1] == setup.torch_pin
    pins = Path(real[real.index("--constraint") + 1]).read_text().splitlines()
    assert {"numpy==1.26.4", "tensorflow-cpu==2.15.1"} <= set(pins) and not any("hash" in pin for pin in pins)


def test_a_build_of_pytorch_for_gpus_is_refused_before_it_is_loaded(setup, ran):
    ran.act = reports("nvidia-cublas", "torch")
    with pytest.raises(SetupError, match="index for CPU wheels .* PIP_EXTRA_INDEX_URL"):
        environment.make_torch(setup, LINE)
    assert len(ran) == 1
    environment.make_torch(replace(setup, accelerator="gpu"), LINE)


def test_without_a_network_pytorch_is_left_out_and_all_else_stands(setup, ran):
    ran.act = lambda command, variables: fails(setup)
    with pytest.raises(CommandError, match="`make lab` works without TORCH=1"):
        environment.make_torch(setup, LINE)


# Horovod's wheel


def write_wheel(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", "text = 1\n" * 1000)


def test_the_wheel_is_kept_by_all_that_the_binary_depends_on(setup, tmp_path, monkeypatch):
    gpu = replace(setup, accelerator="gpu")
    wheels = {setup.wheel, gpu.wheel, replace(setup, mpi=True).wheel}
    (tmp_path / "cuda" / "include").mkdir(parents=True)
    (tmp_path / "cuda" / "include" / "nccl.h").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    wheels.add(gpu.wheel)
    for old, new in (("horovod==0.28.1", "horovod==0.28.2"), ("-cpu==2.15.1", "-cpu==2.15.0")):
        setup.lock.write_text(setup.lock.read_text().replace(old, new))
        wheels.add(setup.wheel)
    (setup.root / ".venv-next").mkdir()
    wheels.add(replace(setup, stack="next").wheel)
    assert len({wheel.parent for wheel in wheels}) == 7
    assert all(
        "cp{}{}".format(*sys.version_info) in wheel.name and wheel.is_relative_to(tmp_path / "cache")
        for wheel in wheels
    )


def test_a_wheel_is_built_once_and_appears_only_when_it_is_whole(setup, ran):
    def build(command, variables):
        if "wheel" in command:
            assert not environment.intact(setup.wheel) and list(Path(command[-1]).iterdir()) == []
            assert variables["HOROVOD_WITH_GLOO"] == "1" and variables["MAKEFLAGS"].startswith("-j")
            write_wheel(Path(command[-1]) / setup.wheel.name)

    ran.act = build
    assert "compiled" in environment.make_horovod(setup, LINE)
    assert environment.make_horovod(setup, LINE) == "from the cache"
    assert sum("wheel" in command for command, _ in ran) == 1
    assert [command[-1] for command, _ in ran if "install" in command] == [str(setup.wheel)] * 2
    assert sorted(path.name for path in setup.wheel.parent.iterdir()) == [setup.wheel.name, "lock"]
    whole = setup.wheel.read_bytes()
    for damaged in (whole[:-30], whole[: len(whole) // 2], b"", whole[:60] + b"\0\0" + whole[62:]):
        setup.wheel.write_bytes(damaged)
        assert "compiled" in environment.make_horovod(setup, LINE)


def test_horovod_for_the_next_stack_finds_the_headers_that_have_moved(next_setup, ran):
    headers = next_setup.root / "tools" / "include"
    shutil.copytree(ROOT / "tools" / "include", headers)
    packages = next_setup.venv / "lib" / "python3.13" / "site-packages"
    external = packages / "tensorflow" / "include" / "external"
    for name in ("highwayhash", "farmhash_archive/src"):
        (external / name).mkdir(parents=True)

    def build(command, variables):
        if "wheel" in command:
            folders = [Path(flag.removeprefix("-I")) for flag in variables["CXXFLAGS"].split()]
            found = [folder.resolve() for folder in folders]
            assert found == [headers, external / "highwayhash", external / "farmhash_archive" / "src"]
            assert all(folder.is_dir() for folder in folders)
            write_wheel(Path(command[-1]) / next_setup.wheel.name)

    ran.act = build
    assert "compiled" in environment.make_horovod(next_setup, LINE)


@pytest.mark.parametrize("cached", [True, False])
def test_a_wheel_that_does_not_work_or_is_half_built_is_not_kept(setup, ran, cached):
    def act(command, variables):
        if cached and "-c" in command:
            fails(setup)
        if "wheel" in command:
            (Path(command[-1]) / setup.wheel.name).write_bytes(b"half")
            interrupt()

    if cached:
        write_wheel(setup.wheel)
    ran.act = act
    with pytest.raises(CommandError if cached else KeyboardInterrupt):
        environment.make_horovod(setup, LINE)
    assert not setup.wheel.exists()


def test_two_set_ups_do_not_make_the_same_thing_at_once(tmp_path):
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import environment as e; from pathlib import Path\n"
        "with e.locked(Path(sys.argv[2])): print(Path(sys.argv[3]).exists(), flush=True); time.sleep(int(sys.argv[4]))"
    )
    marker = tmp_path / "marker"
    argv = [sys.executable, "-c", program, ROOT / "tools", tmp_path / "lock", marker]
    first = subprocess.Popen([*argv, "60"], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "False\n"
        second = subprocess.Popen([*argv, "0"], stdout=subprocess.PIPE, text=True)
        assert "waiting for another set-up" in second.stdout.readline()
        marker.touch()
        first.send_signal(signal.SIGKILL)  # a lock does not outlive its holder
        assert second.communicate(timeout=10)[0] == "True\n"
    finally:
        first.kill()
        first.communicate()
