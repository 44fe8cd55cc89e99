"""A run in one line, and the phrases that all views share."""

from ddl.display.html import prose
from ddl.display.style import STYLE, data_label
from ddl.text import plural, printable

MOST_OWN = 6  # of a script's own figures
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


def summary(progress):
    """Return one line about a run: its state, time, ranks, steps, results and data."""
    if progress.over and progress.failure:
        return printable(f"{SIGNS[progress.state]} {progress.name} {progress.state}: {progress.failure.sentence}")
    return outcome(progress)


def outcome(progress):
    """Return one line about a run without its failure."""
    return " · ".join([f"{SIGNS[progress.state]} {progress.name} {_state(progress)}", *facts_of(progress)])


def summary_html(progress):
    """Return `summary` as a row in HTML."""
    parts = summary(progress).split(" · ")
    chip = f'<b class="ddl-chip ddl-{progress.state}">{prose(parts[0])}</b>'
    facts = "".join(f"<span>{prose(part)}</span>" for part in parts[1:])
    return f'{STYLE}<div class="ddl ddl-row">{chip}{facts}</div>'


def speed_unit(data):
    """Return the unit of throughput; records name it ``images_per_s`` for every kind of sample."""
    return f"{(data or {}).get('unit', 'images')}/s"


def _state(progress):
    if progress.state == "done":
        return f"done in {duration(progress.elapsed_s)}"
    return f"{progress.state}, {duration(progress.elapsed_s)}"


def facts_of(progress):
    """Return phrases about a run: its ranks, position, results and data."""
    facts = [ranks_of(progress)]
    if progress.step:
        facts.append(position_of(progress))
    if progress.test_accuracy is not None:
        facts.append(f"held-out accuracy {progress.test_accuracy:.1%}")
    facts += [f"{name} {value}" for name, value in own_figures(progress)]
    if progress.test_accuracy is None and progress.own and progress.loss is not None:
        facts.append(f"loss {progress.loss:.4g}")
    if progress.images_per_s:
        facts.append(f"{progress.images_per_s:,.0f} {speed_unit(progress.data)}")
    if progress.time_to_first_step_s and progress.over:
        facts.append(f"first step after {progress.time_to_first_step_s:.1f} s")
    if progress.data:
        facts.append(data_label(progress.data))
    return facts


def own_figures(progress):
    """Return the first of a script's own figures, as pairs of texts."""
    return [(name, f"{value:.4g}") for name, value in list(progress.own.items())[:MOST_OWN]]


def position_of(progress):
    """Return the steps and epochs that a run has done, and while it goes on, of how many."""
    if progress.over:
        epochs = f", {progress.epoch:.3g} epochs" if progress.epoch else ""
        return f"{progress.step:,} steps{epochs}"
    step = f"step {progress.step:,}" + (f" of {progress.steps:,}" if progress.steps else "")
    return step + (f", {epoch_of(progress.epoch, progress.epochs)}" if progress.epoch else "")


def epoch_of(epoch, epochs):
    """Return ``epoch 1.5 of 8``, or ``epoch 0.48 of 0.96`` if the total is not whole."""
    digits = 1 if epochs is None or epochs == int(epochs) else 2
    return f"epoch {number(epoch, f'.{digits}f')}" + (f" of {round(epochs, digits):g}" if epochs else "")


def ranks_of(progress):
    """Return how many ranks have started, and on which hosts."""
    world = progress.world or len(progress.ranks)
    if progress.waiting:
        return printable(progress.waiting)
    if not progress.ranks:
        return f"waiting for {plural(world, 'rank')} to start" if world else "no ranks yet"
    hosts = {}
    for rank in progress.ranks:
        hosts.setdefault(rank.host, []).append(rank.rank)
    count = f"{len(progress.ranks)} of " if len(progress.ranks) < world and progress.state != "done" else ""
    roles = ", ".join(rank.role for rank in progress.ranks if rank.role)
    kinds = f" ({roles})" if roles else ""
    where = (
        f"on {next(iter(hosts))}"
        if len(hosts) == 1
        else "; ".join(f"{', '.join(map(str, ranks))} on {host}" for host, ranks in hosts.items())
    )
    return f"{count}{plural(world, 'rank')}{kinds}{':' * (len(hosts) > 1)} {where}"


def duration(seconds):
    minutes, seconds = divmod(int(seconds or 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def number(value, form):
    """Return a formatted number, or a dash for None."""
    return "–" if value is None else format(value, form)
