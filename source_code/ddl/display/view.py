"""What a run looks like while it runs: a live panel in JupyterLab, plain lines elsewhere.

`of(run)` picks the view; the launcher then calls ``update(progress)`` a few times a second and ``close(progress)``
once. Each view decides how often it draws, since the cores are training. The live panel consists of widgets only while
the run goes on. At the end plain HTML replaces it, so that a saved or exported notebook still shows the summary, the
chart or the failure.
"""

import shutil
import sys
import time
from collections import deque
from html import escape

from ddl.display.chart import chart_svg
from ddl.display.style import STYLE, data_label, is_live
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json
from ddl.records.log import TAIL_BYTES, LogTail
from ddl.words import plural

__all__ = ["LiveView", "PlainView", "of", "summary", "summary_html"]

SIGNS = {
    "queued": "…",
    "starting": "◌",
    "running": "▶",
    "training": "▶",
    "done": "✓",
    "failed": "✗",
    "stopped": "■",
    "lost": "?",
    "damaged": "!",
}
COPY = escape(
    "const code = this.parentElement.querySelector('code');"
    "const done = () => { this.textContent = 'Copied' };"
    "const select = () => { getSelection().selectAllChildren(code);"
    " if (document.execCommand('copy')) done() };"
    "navigator.clipboard ? navigator.clipboard.writeText(this.dataset.line).then(done, select)"
    " : select()"
)
LINE_FITS = 100  # characters of a shell line that are shown without folding
HEARTBEAT_S = 9.0  # with the launcher's own polling this stays under ten seconds of silence
CHART_EVERY_S = 2.0
OUTPUT_LINES = 8  # of a script that keeps no records


def of(run):
    """Return the view for `run`."""
    return LiveView(run) if is_live() else PlainView(run)


# ---------------------------------------------------------------- one line about a run


def summary(progress):
    """Return one line about a run: its state, time, ranks, steps, results and data."""
    head = f"{SIGNS[progress.state]} {progress.name}"
    if progress.over and progress.failure:
        return f"{head} {progress.state}: {progress.failure.sentence}"
    return " · ".join([f"{head} {_state(progress)}", *_facts(progress)])


def summary_html(progress):
    """Return `summary` as an HTML row that follows JupyterLab's theme."""
    parts = summary(progress).split(" · ")
    chip = f'<b class="ddl-chip ddl-{progress.state}">{escape(parts[0])}</b>'
    facts = "".join(f"<span>{escape(part)}</span>" for part in parts[1:])
    return f'{STYLE}<div class="ddl ddl-row">{chip}{facts}</div>'


def _speed_unit(data):
    """Return the unit of a speed; records and tables keep ``images_per_s`` for every kind of sample."""
    return f"{(data or {}).get('unit', 'images')}/s"


def _state(progress):
    if progress.state == "done":
        return f"done in {_clock(progress.elapsed_s)}"
    by = f" by {progress.stopped_by}" if progress.state == "stopped" and progress.stopped_by else ""
    return f"{progress.state}{by}, {_clock(progress.elapsed_s)}"


def _facts(progress):
    facts = [_ranks(progress)]
    if progress.step:
        facts.append(_position(progress))
    if progress.test_accuracy is not None:
        facts.append(f"held-out accuracy {progress.test_accuracy:.1%}")
    if progress.images_per_s:
        facts.append(f"{progress.images_per_s:,.0f} {_speed_unit(progress.data)}")
    if progress.time_to_first_step_s and progress.over:
        facts.append(f"first step after {progress.time_to_first_step_s:.1f} s")
    if progress.data:
        facts.append(data_label(progress.data))
    return facts


def _position(progress):
    if progress.over:
        epochs = f", {progress.epoch:.3g} epochs" if progress.epoch else ""
        return f"{progress.step:,} steps{epochs}"
    step = f"step {progress.step:,}" + (f" of {progress.steps:,}" if progress.steps else "")
    epoch = f", epoch {progress.epoch:.1f}" if progress.epoch else ""
    return step + epoch + (f" of {progress.epochs:g}" if epoch and progress.epochs else "")


def _ranks(progress):
    world = progress.world or len(progress.ranks)
    if not progress.ranks:
        return f"{plural(world, 'rank')}, not up yet" if world else "no ranks yet"
    hosts = {}
    for rank in progress.ranks:
        hosts.setdefault(rank.host, []).append(rank.rank)
    count = f"{len(progress.ranks)} of " if len(progress.ranks) < world else ""
    roles = ", ".join(rank.role for rank in progress.ranks if rank.role)
    kinds = f" ({roles})" if roles else ""
    where = (
        f"on {next(iter(hosts))}"
        if len(hosts) == 1
        else "; ".join(f"{', '.join(map(str, ranks))} on {host}" for host, ranks in hosts.items())
    )
    return f"{count}{plural(world, 'rank')}{kinds}{':' * (len(hosts) > 1)} {where}"


def _clock(seconds):
    minutes, seconds = divmod(int(seconds or 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _number(value, form):
    return "–" if value is None else format(value, form)


# ---------------------------------------------------------------- lines


class PlainView:
    """Lines for terminals, papermill and logs: changes, evaluations, a heartbeat, the end.

    In a terminal a script's progress bar is redrawn as it stands; elsewhere the heartbeat reports it.
    """

    def __init__(self, run, clock=time.monotonic):
        self._clock = clock
        self._last = clock()
        self._redraws = sys.stdout.isatty()
        self._drawn = ""
        self._seen = dict(line=False, state=None, waiting="", ranks=0, notes=set(), evaluations=0, failure=None)
        self._tails = {}  # of each rank's log

    def update(self, progress):
        """Print what is new; after nine seconds without news, where the run stands."""
        seen = self._seen
        if not seen["line"]:
            self._print(f"$ {progress.shell_line}")
            seen["line"] = True
        if len(progress.ranks) > seen["ranks"]:
            seen["ranks"] = len(progress.ranks)
            self._say(progress, _ranks(progress))
        if progress.waiting != seen["waiting"]:
            seen["waiting"] = progress.waiting
            if progress.waiting:
                self._say(progress, progress.waiting)
        if progress.state != seen["state"] and not progress.over:
            seen["state"] = progress.state
            data = f", data: {data_label(progress.data)}" if progress.data else ""
            self._say(progress, f"{progress.state} {progress.name}{data}")
        for note in progress.notes:
            if note not in seen["notes"]:
                self._say(progress, f"note: {note}")
                seen["notes"].add(note)
        for row in progress.history[seen["evaluations"] :]:
            self._say(progress, _evaluation(row, progress))
        seen["evaluations"] = len(progress.history)
        if not progress.steps:
            self._echo(progress)
        failure = progress.failure
        if failure and failure.sentence != seen["failure"]:
            output = [f"rank {failure.rank}'s last lines:", *failure.output]
            self._print(
                "\n\n".join(
                    filter(
                        None,
                        (
                            failure.sentence,
                            "\n".join(output) if failure.output and progress.steps else "",
                            failure.traceback.rstrip(),
                        ),
                    )
                )
            )
            seen["failure"] = failure.sentence
        if self._clock() - self._last >= HEARTBEAT_S:
            facts = [progress.state, *(_facts(progress) if progress.step else [progress.waiting or _ranks(progress)])]
            self._say(progress, " · ".join([*facts, *filter(None, [self._current()])]))
        self._draw(progress)

    def close(self, progress):
        """Print what is still unsaid, then what a failure needs, then the summary."""
        self.update(progress)
        if failure := progress.failure:
            for title, text in (("other ranks", failure.others), ("what to try", failure.advice)):
                if text:
                    self._print(f"{title}: {text}")
            self._print("logs: " + "\n      ".join(map(str, failure.logs)))
        self._print(summary(progress))

    def _echo(self, progress):
        """Print the ranks' output if the script keeps no records that say it better."""
        folder = RunFolder(progress.folder)
        for rank in range(progress.world):
            tail = self._tails.setdefault(rank, LogTail(folder.log(rank)))
            for line in tail.lines(_before_traceback(folder, rank)):
                self._print(f"[{rank}] {line}")
            if progress.over and (line := tail.take_current()):
                self._print(f"[{rank}] {line}")

    def _current(self):
        """Return the line that a rank is still writing, such as its progress bar."""
        return next((f"[{rank}] {tail.current}" for rank, tail in self._tails.items() if tail.current.strip()), "")

    def _draw(self, progress):
        if not self._redraws or progress.over:
            return
        line = self._current()[: shutil.get_terminal_size().columns - 1]
        if line != self._drawn:
            print(f"\r{line}\x1b[K", end="", flush=True)
            self._drawn, self._last = line, self._clock()

    def _say(self, progress, text):
        self._print(f"[{_clock(progress.elapsed_s):>5}] {text}")

    def _print(self, text):
        if self._drawn:
            print("\r\x1b[K", end="")
            self._drawn = ""
        print(text, flush=True)
        self._last = self._clock()


def _before_traceback(folder, rank):
    """Return the offset of a rank's traceback in its log, which is shown separately; without one, the log's size.

    The rank records its error before it prints it, so the log's size is read first, too.
    """
    try:
        size = folder.log(rank).stat().st_size
        error = read_json(folder.error(rank)) or {}
    except (OSError, DamagedFile):
        return 0
    return min(size, error.get("log_bytes", size))


def _evaluation(row, progress):
    of_epochs = f" of {progress.epochs:g}" if progress.epochs else ""
    accuracy = row.get("test_accuracy")
    return (
        f"epoch {_number(row.get('epoch'), '.1f')}{of_epochs} · step {row.get('step', '–')}"
        f" · {_number(row.get('images_per_s'), ',.0f')} {_speed_unit(progress.data)}"
        f" · loss {_number(row.get('loss'), '.3f')}"
        f" · held-out accuracy {_number(accuracy, '.1%')}"
    )


# ---------------------------------------------------------------- the live panel


class LiveView:
    """A panel in JupyterLab: shell line, status with a Stop button, bar, numbers, chart."""

    def __init__(self, run, clock=time.monotonic):
        self._run = run
        self._clock = clock
        self._handle = None
        self._drawn = None  # what the chart shows: evaluations and loss points
        self._chart_due = 0.0
        self._second = None
        self._tail = None  # of rank 0's log
        self._output = deque(maxlen=OUTPUT_LINES)  # the last lines of it

    def update(self, progress):
        """Redraw what has changed: text at most twice a second, the chart every two."""
        if self._handle is None:
            self._open(progress)
        now = self._clock()
        if self._second != (second := (int(now * 2), progress.state)):
            self._second = second
            self._status.value = _status_html(progress)
            self._body.value = _body_html(progress, self._last_lines(progress))
        shown = (len(progress.history), len(progress.losses))
        if any(shown) and shown != self._drawn and now >= self._chart_due:
            self._chart.value = chart_svg(progress)
            self._drawn, self._chart_due = shown, now + CHART_EVERY_S

    def close(self, progress):
        """Replace the panel by plain HTML that stays in the saved notebook."""
        if self._handle is None:
            self._open(progress)
        bundle = {"text/html": final_html(progress, self._last_lines(progress)), "text/plain": summary(progress)}
        self._handle.update(bundle, raw=True)
        self._box.close()
        for widget in (self._line, self._status, self._stop, self._body, self._chart):
            widget.close()

    def _last_lines(self, progress):
        """Return what rank 0 printed last, if the script keeps no records that say it better."""
        if progress.steps or progress.step:
            return ()
        if self._tail is None:
            self._tail = LogTail(RunFolder(progress.folder).log(0), TAIL_BYTES)
        self._output.extend(line for line in self._tail.lines() if line.strip())
        return (*self._output, *filter(None, [self._tail.current]))[-OUTPUT_LINES:]

    def _open(self, progress):
        import ipywidgets
        from IPython.display import display

        def html(value="", **layout):
            # Three things keep a panel from widening the page: no minimum, no growth, wrapping.
            return ipywidgets.HTML(value, layout=dict(margin="0", min_width="0", **layout))

        self._line = html(STYLE + _line_html(progress))
        self._status = html(_status_html(progress), flex="1 1 auto")
        self._body = html(_body_html(progress))
        self._chart = html()
        self._stop = ipywidgets.Button(
            description="Stop",
            icon="stop",
            tooltip="End this run and all its ranks (interrupting the cell does the same)",
            layout=dict(width="auto", flex="0 0 auto", margin="0"),
        )
        self._stop.on_click(self._stop_clicked)
        # JupyterLab sends a widget's messages to a subshell of the kernel, where they are handled while the cell is
        # busy. But ipykernel (7.4) sends those of a widget that a cell has made back to that cell, where a click would
        # wait for the run to end. Make it forget who did.
        vars(self._stop.comm).pop("_reply_subshell_id", None)
        row = ipywidgets.HBox([self._status, self._stop], layout=dict(align_items="center", width="100%"))
        self._box = ipywidgets.VBox(
            [self._line, row, self._body, self._chart], layout=dict(width="100%", overflow="hidden")
        )
        self._handle = display(self._box, display_id=True)

    def _stop_clicked(self, button):
        # This runs in the subshell's thread; the launching cell sees the run end and closes.
        button.disabled, button.description = True, "Stopping…"
        self._run.stop()


def final_html(progress, output=()):
    """Return the HTML that a finished run leaves in the notebook; `output` is rank 0's last lines."""
    parts = [STYLE, _line_html(progress)]
    parts.append(
        _failure_html(progress)
        if progress.failure
        else summary_html(progress) + _output_html(output) + _notes_html(progress)
    )
    if progress.history or progress.losses:
        parts.append(chart_svg(progress))
    return "".join(parts)


def _line_html(progress):
    line = escape(progress.shell_line, quote=True)
    copy = (
        f'<button class="ddl-copy" type="button" data-line="{line}" title="Copy this line" '
        f'onclick="{COPY}">Copy</button>'
    )
    if len(progress.shell_line) <= LINE_FITS:
        return f'<div class="ddl ddl-line">{copy}<code>{line}</code></div>'
    return (
        f'<div class="ddl ddl-line">{copy}<details><summary><code>{line}</code></summary>'
        f"<code>{line}</code></details></div>"
    )


def _status_html(progress):
    times = f"{_clock(progress.elapsed_s)} elapsed"
    if progress.remaining_s is not None:
        times += f", about {_clock(progress.remaining_s)} left"
    where = [progress.waiting or _ranks(progress)]
    where += [data_label(progress.data)] if progress.data else []
    facts = "".join(f"<span>{escape(fact)}</span>" for fact in (times, *where))
    chip = f"{SIGNS[progress.state]} {progress.state}"
    return f'<div class="ddl ddl-row"><b class="ddl-chip ddl-{progress.state}" role="status">{chip}</b>{facts}</div>'


def _output_html(lines):
    """The last lines of a script that keeps no records."""
    if not lines:
        return ""
    return f'<div class="ddl ddl-output"><pre>{escape(chr(10).join(lines))}</pre></div>'


def _notes_html(progress):
    return "".join(f'<p class="ddl">{escape(note)}</p>' for note in progress.notes)


def _body_html(progress, output=()):
    if progress.failure:
        return _failure_html(progress)
    if not (progress.step or progress.steps):
        # Still importing, or a script that keeps no records: there may never be a bar to show.
        where = escape(str(progress.folder / "rank-*.log"))
        text = f"no training records yet; output: <code>{where}</code>"
        under = f'<div class="ddl ddl-under">{text}</div>'
        return _output_html(output) + under + _notes_html(progress)
    steps = progress.steps or 0
    share = min(1.0, progress.step / steps) if steps else 0.0
    text = escape(_position(progress) if progress.step else "before the first step")
    ticks = ""
    if progress.epochs and progress.epochs <= 50:
        ticks = f"background-size:{100 / progress.epochs:.4f}% 100%"
    numbers = (
        (_speed_unit(progress.data), _number(progress.images_per_s, ",.0f")),
        ("loss", _number(progress.loss, ".3f")),
        ("held-out accuracy", _number(progress.test_accuracy, ".1%")),
        ("learning rate", _number(progress.learning_rate, ".3g")),
    )
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
    notes = "".join(f"<p>{escape(note)}</p>" for note in progress.notes)
    return (
        f'<div class="ddl"><div class="ddl-bar" role="progressbar" aria-label="training progress"'
        f' aria-valuemin="0" aria-valuemax="{steps}" aria-valuenow="{progress.step}"'
        f' aria-valuetext="{text}"><i style="width:{share:.2%}"></i><u style="{ticks}"></u></div>'
        f'<div class="ddl-under">{text}</div><dl class="ddl-numbers">{cells}</dl>{notes}</div>'
    )


def _failure_html(progress):
    failure = progress.failure
    state = progress.state if progress.over else "failed"
    headline = escape(f"{SIGNS[state]} {progress.name} {state}: {failure.sentence}")
    parts = [f"<p><b>{headline}</b></p>"]
    if failure.output:
        parts.append(
            f"<p><b>Rank {failure.rank}'s last lines:</b></p><pre>{escape(chr(10).join(failure.output))}</pre>"
        )
    if failure.traceback:
        parts.append(f"<pre>{escape(failure.traceback.rstrip())}</pre>")
    for title, text in (("Other ranks", failure.others), ("What to try", failure.advice)):
        if text:
            parts.append(f"<p><b>{title}:</b> {escape(text)}</p>")
    logs = "".join(f"<li><code>{escape(str(path))}</code></li>" for path in failure.logs)
    parts.append(f"<p><b>Logs:</b></p><ul>{logs}</ul>")
    return f'<div class="ddl ddl-failure" role="alert">{"".join(parts)}</div>'
