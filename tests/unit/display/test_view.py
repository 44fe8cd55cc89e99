"""Views: content, order and frequency of snapshots."""

import io
import json
import operator
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddl.display import panel, view
from ddl.follow.failure import Failure
from ddl.follow.progress import Progress, RankInfo
from ddl.records.folder import RunFolder
from ddl.records.paths import runs_dir

DATA = {"name": "synthetic", "form": "generated", "train_samples": 2000}


def evaluation(epoch, accuracy):
    return {
        "event": "evaluation",
        "step": 9 * epoch,
        "epoch": float(epoch),
        "samples": 576 * epoch,
        "images_per_s": 1203.4,
        "loss": 2.0 / epoch,
        "test_accuracy": accuracy,
    }


def progress(state="training", epochs=0, **fields):
    history = tuple(evaluation(epoch, 0.1 + 0.05 * epoch) for epoch in range(1, epochs + 1))
    at = {"step": 9 * epochs, "epoch": float(epochs)} if epochs else {}
    if history:
        at |= {name: history[-1][name] for name in ("images_per_s", "loss", "test_accuracy")}
    defaults = dict(
        id="r1",
        name="warmup",
        state=state,
        folder=Path("/runs/r1"),
        shell_line="cd /course && python -m ddl.rank.horovodrun -np 2 train.py",
        world=2,
        ranks=(RankInfo(0, "vm", 11, 0.0), RankInfo(1, "vm", 12, 0.0)),
        elapsed_s=12.3,
        steps=72,
        announced=fields.get("steps", 72) is not None,
        epochs=8.0,
        data=DATA,
        history=history,
        losses=tuple((row["samples"], row["loss"]) for row in history),
    )
    return Progress(**defaults | at | fields)


FAILURE = Failure(
    sentence="rank 1 of 2 on vm raised ValueError 3.2 s into epoch 2",
    rank=1,
    traceback='Traceback:\n  File "train.py", line 3\nValueError: <script>alert(1)</script>',
    others="rank 0 was ended",
    advice="look at line 3",
    logs=(Path("/runs/r1/rank-0.log"), Path("/runs/r1/rank-1.log")),
)


def in_order(text, *parts):
    places = [text.index(part) for part in parts]
    assert places == sorted(places), dict(zip(parts, places, strict=True))


# ---------------------------------------------------------------- which view


@pytest.mark.parametrize(
    ("chosen", "session", "kind"),
    [
        ("plain", None, view.PlainView),
        ("live", None, view.LiveView),
        (None, None, view.PlainView),
        (None, "lesson.ipynb", view.PlainView),  # a terminal opened in JupyterLab: no kernel
    ],
)
def test_environment_chooses_the_view(monkeypatch, chosen, session, kind):
    for name, value in (("DDL_VIEW", chosen), ("JPY_SESSION_NAME", session)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert type(view.of(None)) is kind
    monkeypatch.setenv("DDL_VIEW", "loud")
    with pytest.raises(ValueError, match="DDL_VIEW"):
        view.of(None)


# ---------------------------------------------------------------- lines


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_plain_view_prints_each_state_once(capsys):
    lines = view.PlainView(None)
    lines.update(progress("queued", ranks=(), data=None))
    lines.update(progress("starting"))
    lines.update(progress("training"))
    for _ in range(2):
        lines.update(progress("training", epochs=1, notes=("CIFAR-10 is not here",)))
    lines.close(progress("done", epochs=2, elapsed_s=72.0))
    said = capsys.readouterr().out.splitlines()
    expected = (
        *("$ cd /course", "queued", "2 ranks on vm", "starting", "training", "CIFAR-10 is not here"),
        *("epoch 1.0 of 8 · step 9 · 1,203 images/s", "epoch 2.0 of 8", "✓ warmup done in 1:12 · 2 ranks on vm"),
    )
    assert len(said) == len(expected) and all(map(operator.contains, said, expected))


def test_plain_view_reports_at_least_every_ten_seconds(capsys):
    clock, spoke = Clock(), [0.0]
    lines = view.PlainView(None, clock=clock)
    for tick in range(300):
        clock.now = 0.2 * tick
        lines.update(progress("starting", ranks=(), data=None))
        if capsys.readouterr().out:
            spoke.append(clock.now)
    assert max(b - a for a, b in zip(spoke, [*spoke[1:], clock.now], strict=True)) < 10 > len(spoke)


def test_plain_view_names_the_log_of_output_that_it_skips(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "CHUNK_BYTES", 1 << 10)
    (tmp_path / "rank-0.log").write_text("x" * 99 + "\n" + "y\n" * 2_000)
    view.PlainView(None).close(progress("done", steps=None, world=1, folder=tmp_path))
    said = capsys.readouterr().out
    assert len(said) < 4e3 and "xx" not in said and said.count(f"{tmp_path}/rank-0.log") == 1


def test_failure_is_shown_cause_first(capsys):
    failure = replace(FAILURE, output=("usage: train.py", "train.py: error: --batchsize"))
    lines = view.PlainView(None)
    lines.update(progress("training", epochs=1))
    lines.update(progress("training", epochs=1, failure=failure))
    lines.close(progress("failed", epochs=1, failure=failure))
    text, html = capsys.readouterr().out, panel.final_html(progress("failed", failure=failure))
    assert text.count("Traceback") == text.count(FAILURE.sentence) == 1
    for told in (text, html):
        in_order(told, FAILURE.sentence, "--batchsize", "Traceback", FAILURE.others, FAILURE.advice, "rank-0.log")
    assert 'role="alert"' in html


# ---------------------------------------------------------------- HTML


class Tags(HTMLParser):
    """Collects elements; complains about ones that are closed wrongly."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


HOSTILE = "<script>alert('x')</script>\"&"


@pytest.mark.parametrize("state", ["done", "failed", "training"])
def test_texts_of_a_run_are_escaped(state):
    failure = Failure(HOSTILE, traceback=HOSTILE, others=HOSTILE, advice=HOSTILE, logs=(Path(HOSTILE),))
    shown = progress(
        state,
        epochs=2,
        name=HOSTILE,
        shell_line=HOSTILE * 5,
        notes=(HOSTILE,),
        data={"name": HOSTILE, "form": HOSTILE},
        ranks=(RankInfo(0, HOSTILE, 1, 0.0),),
        failure=failure if state == "failed" else None,
        folder=Path(HOSTILE),
    )
    for html in (panel.final_html(shown), panel._status_html(shown), panel._body_html(shown)):
        assert all(tag != "script" for tag, _ in Tags(html).seen)


# ---------------------------------------------------------------- the live panel


@pytest.fixture
def live(monkeypatch):
    """A live view on a clock, with everything that is sent to the notebook."""
    display = pytest.importorskip("IPython.display")
    shown = SimpleNamespace(sent=[], metadata=[], clock=Clock())

    def send(bundle, raw, metadata, display_id=None):
        assert raw
        shown.sent.append(bundle)
        shown.metadata.append(metadata["ddl"])
        return SimpleNamespace(update=send)

    monkeypatch.setattr(display, "display", send)
    monkeypatch.setenv(panel.SERVED, "/elsewhere/runs")
    shown.served = lambda: monkeypatch.setenv(panel.SERVED, str(runs_dir()))
    shown.open = lambda: view.LiveView(None, clock=shown.clock)
    return shown


def test_panel_update_frequency(live, tmp_path):
    def train(shown):
        for tick in range(101):
            live.clock.now = 100 + 0.2 * tick
            shown.update(progress(epochs=1, folder=tmp_path))

    train(live.open())
    assert 10 <= len(live.sent) <= 11  # without what needs the server
    for bundle in live.sent:
        assert all(tag != "script" for tag, _ in Tags(bundle["text/html"]).seen)
        assert 'class="ddl-stop"' not in bundle["text/html"]
    live.served()
    live.sent.clear()
    train(live.open())  # in another front end of the course's server, where no page asks for the run
    assert 5 <= len(live.sent) <= 7 and "ddl/view.js" in live.sent[-1]["text/html"]
    RunFolder(tmp_path).watched.touch()
    live.sent.clear(), live.metadata.clear()
    train(view_ := live.open())
    view_.close(progress("done", epochs=2, folder=tmp_path))
    first, last = (bundle["text/html"] for bundle in live.sent)
    assert "ddl/view.js" in first and 'class="ddl-stop"' in first and 'data-run="r1"' in first
    assert 'class="ddl-stop"' not in last and "warmup done in" in last
    assert 'class="ddl-ended" data-run="r1"' in last and "ddl/view.js" in last  # asks for later runs of another tab
    assert live.metadata == [{"run": "r1", "over": False}, {"run": "r1", "over": True}]


@pytest.mark.parametrize("served", [False, True])
def test_saved_panel_of_an_active_run_has_its_time(live, served):
    if served:
        live.served()
    live.open().update(progress(epochs=1, remaining_s=138.0))
    html, plain = live.sent[0]["text/html"], live.sent[0]["text/plain"]
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.search(moment, html) and re.search(moment, plain)
    assert "2:18" not in html and "2:18" in panel.parts_html(progress(epochs=1, remaining_s=138.0))["status"]
    assert "attach(" in html
    live.open().close(progress("failed", failure=FAILURE))  # at once
    assert FAILURE.sentence in live.sent[-1]["text/plain"]


def test_the_cell_that_shows_a_run_is_recorded(live, monkeypatch, tmp_path):
    import IPython

    asked = {"msg_id": "m1", "metadata": {"cellId": "c7"}}
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(get_parent=lambda: asked))
    monkeypatch.setenv("JPY_SESSION_NAME", "/course/notebooks/3.ipynb")
    live.open().update(progress(folder=tmp_path))
    shown = json.loads((tmp_path / "shown.json").read_text())
    assert shown == {"notebook": "/course/notebooks/3.ipynb", "cell": "c7", "execution": "m1"}


# ---------------------------------------------------------------- what ranks print


@pytest.fixture
def printing(tmp_path):
    """A snapshot of a script that keeps no records, and a function that appends to rank 0's log."""

    def write(data, rank=0):
        with open(tmp_path / f"rank-{rank}.log", "ab") as file:
            file.write(data)

    def snapshot(state="running", **fields):
        return progress(state, folder=tmp_path, steps=None, data=None, **fields)

    return snapshot, write


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_redraws_a_progress_bar_in_one_line(monkeypatch, printing):
    monkeypatch.setattr("sys.stdout", Terminal())
    snapshot, write = printing
    lines = view.PlainView(None)
    for part in (b"Epoch 1\n", b"\r1/2 [=>..]", b"\r2/2 [====]"):
        write(part)
        lines.update(snapshot())
    write(b"\nsaved\n")
    lines.close(snapshot("done"))
    text = sys.stdout.getvalue()
    redrawn = ("\r[0] 1/2 [=>..]\x1b[K", "\r[0] 2/2 [====]\x1b[K", "\r\x1b[K[0] 2/2 [====]\n")
    in_order(text, "[0] Epoch 1\n", *redrawn, "[0] saved\n")
    assert text.count("\n[0] 1/2") == 0


def test_a_finished_run_has_no_empty_chart():
    assert panel._chart_html(progress("training", losses=((0, 2.0), (0, 1.0)))).count("<svg") == 2
    assert "<svg" not in panel._chart_html(progress("done", losses=((0, 2.0), (0, 1.0)), history=()))
    assert panel._chart_html(progress("done", losses=((0, 2.0), (64, 1.0)), history=())).count("<svg") == 1
