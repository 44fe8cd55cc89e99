"""A run's panel in a notebook: shell line, status with a Stop button, progress bar, numbers and chart.

The panel is HTML that the page updates from `ddl.server`, which reads the run's folder. So it keeps working after a
reload and after the launching kernel has ended. A saved notebook keeps a snapshot with its time. On other servers, the
launching kernel sends a new panel every few seconds, without a Stop button.
"""

import contextlib
import os
import time
from collections import deque
from html import escape

from ddl.display.chart import chart_svg
from ddl.display.html import Markup, html_table, prose
from ddl.display.style import STYLE, data_label
from ddl.display.summary import (
    SIGNS,
    duration,
    number,
    own_figures,
    position_of,
    ranks_of,
    speed_unit,
    summary,
    summary_html,
)
from ddl.records.folder import RunFolder, StorageError
from ddl.records.log import TAIL_BYTES, LogTail
from ddl.records.paths import runs_dir
from ddl.text import plural

SERVED = "DDL_SERVED_RUNS"  # variable that the server sets for its kernels: the runs folder that it shows
MARK = "ddl"  # key in an output's metadata: {"run": id, "over": whether the output shows the run's end}
REDRAW_S = 2.0  # between panels that the kernel sends
WATCHED_S = 10.0  # since a page last asked the server for the run; before, the kernel sends none
LINE_FITS = 100  # longer shell lines are folded
OUTPUT_LINES = 8  # shown of a script that keeps no records
COPY = escape(  # navigator.clipboard would need HTTPS
    "const line = this.parentElement;"
    "getSelection().selectAllChildren(line.querySelector('details[open]>code') || line.querySelector('code'));"
    "if (document.execCommand('copy')) this.textContent = 'Copied'"
)
# In other front ends this does nothing, and the panel shows the time of its snapshot.
FOLLOW = """<script>
(() => {
  const page = document.getElementById("jupyter-config-data");
  if (page) import(JSON.parse(page.textContent).baseUrl + "ddl/view.js").then((view) => view.follow());
})();
</script>"""


class LiveView:
    """The panel in the output of the cell that launches or follows a run."""

    def __init__(self, run, clock=time.monotonic):
        self._clock = clock
        self._handle = None
        self._due = 0.0
        self._lines = LastLines()
        self._served = _served()

    def update(self, progress):
        """Show the panel; later, send a new one unless a page keeps it up to date with the server's help."""
        if self._handle is None:
            from IPython.display import display

            note_cell(progress)
            bundle = mime_bundle(progress, self._lines(progress), served=self._served)
            self._handle = display(bundle, raw=True, metadata=mark(progress), display_id=True)
            self._due = self._clock() + (WATCHED_S if self._served else 0.0)
        elif self._clock() >= self._due and not self._watched(progress):
            self._send(progress, served=self._served)
        else:
            return
        self._due = max(self._due, self._clock() + REDRAW_S)

    def close(self, progress):
        """Replace the panel with the run's end, which stays in the saved notebook."""
        self.update(progress)
        self._send(progress)

    def _watched(self, progress):
        """Return whether a page has asked the server for this run lately; another front end of it never does."""
        try:
            return self._served and time.time() - RunFolder(progress.folder).watched.stat().st_mtime < WATCHED_S
        except OSError:
            return False

    def _send(self, progress, served=False):
        bundle = mime_bundle(progress, self._lines(progress), served=served)
        self._handle.update(bundle, raw=True, metadata=mark(progress))


def _served():
    """Return whether the notebook's server shows this process's runs."""
    return os.environ.get(SERVED) == str(runs_dir())


class LastLines:
    """The last lines that rank 0 printed, for scripts that keep no records."""

    def __init__(self):
        self._tail = None
        self._lines = deque(maxlen=OUTPUT_LINES)

    def __call__(self, progress):
        if progress.steps or progress.step:
            return ()
        if self._tail is None:
            self._tail = LogTail(RunFolder(progress.folder).log(0), TAIL_BYTES)
        self._lines.extend(line for line in self._tail.lines() if line.strip())
        return (*self._lines, *filter(None, [self._tail.current]))[-OUTPUT_LINES:]


def note_cell(progress):
    """Record which notebook cell shows a run, so that the server can show it there again.

    JupyterLab sends the cell's id with its execution request; other front ends may not.
    """
    from IPython import get_ipython

    shell = get_ipython()
    asked = shell.get_parent() if shell and hasattr(shell, "get_parent") else {}
    if cell := asked.get("metadata", {}).get("cellId"):
        shown = {"notebook": os.environ.get("JPY_SESSION_NAME", ""), "cell": cell, "execution": asked["msg_id"]}
        folder = RunFolder(progress.folder)
        with contextlib.suppress(StorageError):  # if the disk is full, the panel is just not restored
            folder.write_json(folder.shown, shown)


def mark(progress):
    """Return an output's metadata: which run it shows, and whether it shows its end."""
    return {MARK: {"run": progress.id, "over": progress.over}}


# ---------------------------------------------------------------- HTML


def mime_bundle(progress, lines=(), served=False, back=False):
    """Return the output that a notebook keeps of a run: its end, or a snapshot with the time.

    `lines` are rank 0's last lines. `served` means that the server updates the panel, `back` adds how to reconnect to
    the run from another kernel.
    """
    if progress.over:
        back = back or progress.state in ("stopped", "lost")  # the cell was interrupted, so it returned no run
        html = final_html(progress, lines) + (f"<p class='ddl ddl-under'>{_back(progress)}</p>" if back else "")
        return {"text/html": html, "text/plain": summary(progress)}
    at = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"text/html": panel_html(progress, lines, served, at), "text/plain": f"{summary(progress)} (at {at})"}


def panel_html(progress, lines=(), served=False, at=None):
    """Return the panel of a run that goes on; `at` is the time of a snapshot."""
    parts = parts_html(progress, lines, at)
    stop = (
        '<button class="ddl-stop" type="button" hidden title="End this run and all its ranks '
        '(interrupting the cell does the same)">■ Stop</button>'
    )
    if progress.max_restarts:  # the run can practice a failure
        last = progress.world - 1
        stop += (
            f'<button class="ddl-stop" type="button" hidden data-kill="{last}" title="Send SIGKILL, as a machine '
            f'without memory does: all ranks restart from the last checkpoint">Kill rank {last}</button>'
        )
    then = f"Updates have stopped here; the run may have continued. {_back(progress)}"
    then = f'<p class="ddl ddl-then">{then}</p>' if at else ""
    return (
        f'{STYLE}<div class="ddl-run" data-run="{escape(progress.id, quote=True)}">'
        f'<div class="ddl-top"><div data-part="status">{parts["status"]}</div>{stop if served else ""}</div>'
        f"{_line_html(progress)}"
        f'<div data-part="body">{parts["body"]}</div>'
        f'<div data-part="chart">{parts["chart"]}</div>{then}</div>'
        f"{FOLLOW if served else ''}"
    )


def runs_html(rows, count):
    """Return a table of runs, with links to their pages if this server has them.

    `rows` are pairs of a run's creation time (seconds since the epoch, or None) and its progress; `count` is the number
    of all runs.
    """
    if not count:
        return '<p class="ddl">No runs yet.</p>'
    cells = []
    for created, progress in rows:
        run, name = escape(progress.id, quote=True), escape(progress.name)
        link = f'<a data-page="ddl/runs/{run}">{name}</a>' if _served() else name
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created)) if created else ""
        chip = f'<span class="ddl-chip ddl-{progress.state}">{SIGNS[progress.state]} {progress.state}</span>'
        cells.append((Markup(link), began, Markup(chip), ranks_of(progress), Markup(f"<code>{run}</code>")))
    how = "latest first; <code>attach(…)</code> takes an id or its beginning"
    under = f'<div class="ddl-under">{len(rows)} of {plural(count, "run")}, {how}</div>'
    return html_table(("run", "launched", "state", "where", "id"), cells, under) + (FOLLOW if _served() else "")


def parts_html(progress, lines=(), at=None):
    """Return the parts of a panel that change while the run goes on: status, body and chart."""
    return {"status": _status_html(progress, at), "body": _body_html(progress, lines), "chart": _chart_html(progress)}


def _back(progress):
    return f'<code>run = attach("{escape(progress.id)}")</code> reconnects to this run, in any notebook.'


def final_html(progress, output=()):
    """Return the HTML of a finished run; `output` is rank 0's last lines."""
    body = summary_html(progress) + _output_html(output) + _notes_html(progress)
    if progress.failure:
        body = _failure_html(progress)
    html = STYLE + _line_html(progress) + body + _chart_html(progress) + _links_html(progress)
    if _served():  # where a run of another tab appears
        html += f'<div class="ddl-ended" data-run="{escape(progress.id, quote=True)}"></div>{FOLLOW}'
    return html


def _chart_html(progress):
    return chart_svg(progress) if progress.history or progress.losses or progress.curves else ""


def _links_html(progress):
    """Return a link to the server's page of TensorBoard, if there is one and the run has logs."""
    if not (_served() and RunFolder(progress.folder).tensorboard.is_dir()):
        return ""
    page = f"tensorboard/?runFilter={escape(progress.id, quote=True)}#timeseries"
    return f'<p class="ddl">In a new tab: <a data-page="{page}">TensorBoard</a></p>'


def _line_html(progress):
    code = f"<code>{escape(progress.shell_line)}</code>"
    if len(progress.shell_line) > LINE_FITS:
        code = f"<details><summary>{code}</summary>{code}</details>"
    button = f'<button class="ddl-copy" type="button" title="Copy this line" onclick="{COPY}">Copy</button>'
    return f'<div class="ddl ddl-line">{button}{code}</div>'


def _status_html(progress, at=None):
    """Return the row under the shell line; `at` is the time of a snapshot."""
    times = f"{duration(progress.elapsed_s)} elapsed"
    if progress.remaining_s is not None and not at:
        times += f", about {duration(progress.remaining_s)} left"
    where = [ranks_of(progress)]
    where += [data_label(progress.data)] if progress.data else []
    facts = "".join(f"<span>{prose(fact)}</span>" for fact in (times, *where))
    chip = f"{SIGNS[progress.state]} {progress.state}" + (f" at {at}" if at else "")
    return f'<div class="ddl ddl-row"><b class="ddl-chip ddl-{progress.state}" role="status">{chip}</b>{facts}</div>'


def _output_html(lines):
    if not lines:
        return ""
    return f'<div class="ddl ddl-output"><pre>{escape(chr(10).join(lines))}</pre></div>'


def _notes_html(progress):
    return "".join(f'<p class="ddl ddl-note">{prose(note)}</p>' for note in progress.notes)


def _body_html(progress, output=()):
    if progress.failure:
        return _failure_html(progress)
    if not (progress.step or progress.steps):
        # Still importing, or a script that keeps no records and never shows a bar.
        where = escape(str(progress.folder / "rank-*.log"))
        text = f"no training records yet; output: <code>{where}</code>"
        under = f'<div class="ddl ddl-under">{text}</div>'
        return _output_html(output) + under + _notes_html(progress)
    steps = progress.steps or 0
    share = min(1.0, progress.step / steps) if steps else 0.0
    text = escape(position_of(progress) if progress.step else "before the first step")
    ticks = ""
    if progress.epochs and progress.epochs <= 50:
        ticks = f"background-size:{100 / progress.epochs:.4f}% 100%"
    numbers = (
        (speed_unit(progress.data), number(progress.images_per_s, ",.0f")),
        ("loss", number(progress.loss, ".3f")),
        ("held-out accuracy", number(progress.test_accuracy, ".1%")),
        ("learning rate", number(progress.learning_rate, ".3g")),
    )
    if progress.own:  # a script of another kind: what it has not recorded takes no place
        numbers = [pair for pair in numbers if pair[1] != "–"]
        numbers += [(escape(name), value) for name, value in own_figures(progress)]
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
    return (
        f'<div class="ddl"><div class="ddl-bar" role="progressbar" aria-label="training progress"'
        f' aria-valuemin="0" aria-valuemax="{steps}" aria-valuenow="{progress.step}"'
        f' aria-valuetext="{text}"><i style="width:{share:.2%}"></i><u style="{ticks}"></u></div>'
        f'<div class="ddl-under">{text}</div><dl class="ddl-numbers">{cells}</dl>{_notes_html(progress)}</div>'
    )


def _failure_html(progress):
    failure = progress.failure
    state = progress.state if progress.over else "failed"
    headline = prose(f"{SIGNS[state]} {progress.name} {state}: {failure.sentence}")
    parts = [f"<p><b>{headline}</b></p>"]
    if failure.output:
        parts.append(
            f"<p><b>Rank {failure.rank}'s last lines:</b></p><pre>{escape(chr(10).join(failure.output))}</pre>"
        )
    if failure.traceback:
        parts.append(f"<pre>{escape(failure.traceback.rstrip())}</pre>")
    for title, text in (("Other ranks", failure.others), ("What to try", failure.advice)):
        if text:
            parts.append(f"<p><b>{title}:</b> {prose(text)}</p>")
    logs = "".join(f"<li><code>{escape(str(path))}</code></li>" for path in failure.logs)
    parts.append(f"<p><b>Logs:</b></p><ul>{logs}</ul>")
    return f'<div class="ddl ddl-failure" role="alert">{"".join(parts)}</div>'
