"""A pytest plugin: ``@pytest.mark.ranks(2)`` runs a test function on several ranks.

The pytest that you start launches a marked test as it launches a script, and fails it with the launcher's report. Each
rank runs its own pytest on this one test, with its fixtures and parameters (``python -m ddl.pytest_ranks``).
"""

import contextlib
import io
import os
import sys

import pytest

MARK = (
    "ranks(n, cluster=, timeout_s=120, …): run the test on n ranks, with the options of ddl.launch. Fixtures and "
    "parameters are set up in each rank, and not in the process that starts them."
)
IN_RANK = bool(os.environ.get("DDL_RUN_DIR"))  # read at the start: a test may set it
TIMEOUT_S = 120
SKIPPED = "pytest_skipped"  # an event of rank 0
# The launcher has its own handler of crashes, and unraisableexception collects garbage for a second at the end.
QUIET = "-p no:faulthandler -p no:unraisableexception -qq -s --no-header --no-summary --tb=no --runxfail"
QUIET += " -oconsole_output_style=classic -m= -k= -W ignore::pytest.PytestAssertRewriteWarning"  # ddl is imported


def pytest_configure(config):
    config.addinivalue_line("markers", MARK)


def pytest_itemcollected(item):
    if item.get_closest_marker("ranks") and not IN_RANK:
        if type(item) is not pytest.Function:  # a method of unittest, a coroutine
            raise pytest.UsageError(f"{item.nodeid}: only plain test functions and methods can run on ranks")
        item.fixturenames = ["tmp_path"]  # for the run's folder


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    mark = pyfuncitem.get_closest_marker("ranks")
    if not mark or IN_RANK:
        return None
    from ddl.errors import CourseError  # after conftest.py, which may set what an import reads

    try:
        run, report = _launch(pyfuncitem, mark)
    except CourseError as error:
        pytest.fail(f"this test could not be started on ranks: {error}", pytrace=False)
    if run.state != "done":
        pytest.fail(f"{run.failure.sentence if run.failure else run.state}\n{report}", pytrace=False)
    print(report)
    skipped = [event["reason"] for event in run.events() if event["event"] == SKIPPED]
    return pytest.skip(skipped[0]) if skipped else True


def _launch(item, mark):
    """Run a test on ranks; return the run and what the launcher printed."""
    from ddl.display.view import PlainView
    from ddl.job.job import OPTIONS, JobError
    from ddl.job.scripts import cluster_of
    from ddl.start.launch import launch

    if unknown := mark.kwargs.keys() - (OPTIONS.keys() - {"workers"}) - {"env", "site"}:
        raise JobError(f"ranks has no option {', '.join(sorted(unknown))}; its options are those of ddl.launch")
    if len(mark.args) != 1:
        raise JobError(f"ranks needs the number of ranks, such as @pytest.mark.ranks(2), got {mark.args}")
    config = item.config
    words = [f"{config.rootpath}/{item.nodeid}", f"--rootdir={config.rootpath}"]
    words += ["-c", config.inipath] if config.inipath else []
    words += ["-n0"] if config.pluginmanager.hasplugin("xdist") else []
    options = {
        "workers": mark.args[0],
        "name": item.originalname,
        "cluster": cluster_of(str(item.path))[0],
        "timeout_s": TIMEOUT_S,
        "oversubscribe": True,
        **mark.kwargs,
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setenv("DDL_RUNS_DIR", str(item.funcargs["tmp_path"] / "runs"))
        run = launch("-m ddl.pytest_ranks", args=words, wait=False, check=False, **options)
        try:
            run.wait(PlainView(run))
        except BaseException:  # an interrupt, or a limit of this process's own
            run.stop()
            raise
    return run, printed.getvalue()


class Observer:
    """Keeps the first exception of the rank's only test, and records that it was skipped."""

    error = None

    def pytest_exception_interact(self, call):
        if self.error is None:
            error, frames = call.excinfo.value, call.excinfo.tb
            while frames.tb_next and frames.tb_frame.f_globals.get("__name__", "").startswith(("_pytest", "pluggy")):
                frames = frames.tb_next
            self.error = error.with_traceback(frames)

    def pytest_runtest_logreport(self, report):
        from ddl.records.recorder import Recorder

        if report.skipped and os.environ["HOROVOD_RANK"] == "0":
            Recorder().event(SKIPPED, reason=report.longrepr[2].removeprefix("Skipped: "))  # a result is the test's

    def pytest_report_teststatus(self):
        return "", "", ""  # the launcher's report says it


def main():
    """Run the test that the command line names; raise what it raises."""
    own, observer = f"{os.environ['DDL_RUN_DIR']}/pytest-{os.environ['HOROVOD_RANK']}", Observer()
    status = pytest.main([*QUIET.split(), f"--basetemp={own}", f"-ocache_dir={own}-cache", *sys.argv[1:]], [observer])
    if isinstance(observer.error, SystemExit):  # whose status may be 0
        raise AssertionError(f"the test raised SystemExit({observer.error.code!r})") from observer.error
    if observer.error:
        raise observer.error
    if status:
        sys.exit(f"pytest ended with status {int(status)} on this rank, and no test has failed")


if __name__ == "__main__":
    main()
