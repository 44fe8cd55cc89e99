"""What launched ranks were given, and what came back from them: lesson 3's exercise (`course.grader.conversion`).

What comes back is data from processes in which a reader's script has run: only what was handed out is known for sure.
"""

from dataclasses import dataclass

import numpy as np

from course.grader import launches
from course.training.task import SHAPES

TRAINED = ("tied", "inner", "outer")
LEFT_ALONE = ("HorovodInternalError", "UnknownError")  # what Horovod raises when another rank is gone
CLOSED = "gloo/transport"  # in what torch.distributed then says
SAME_CALLS = "do all ranks make the same collective calls?"
MESSAGE = 300  # characters of a script's own error


@dataclass(frozen=True)
class Step:
    """A rank's step: numbers of the samples that it read, what it sent; then its loss, the samples of all, its weights.

    What it sent is an array for each call of a collective, without values where another rank sends.
    """

    samples: np.ndarray
    sent: tuple[np.ndarray, ...]
    loss: float
    counted: int
    weights: dict[str, np.ndarray]


@dataclass(frozen=True)
class Rank:
    """What one rank began with, and had called by then; its steps, and whether it left a file of weights."""

    began: dict[str, np.ndarray]
    called: bool
    steps: tuple[Step, ...]
    wrote: bool

    def before(self, number):
        """Return the weights before a step, counted from 0."""
        return self.steps[number - 1].weights if number else self.began


@dataclass(frozen=True)
class Training:
    """A launch on several ranks: what they were given, and what they say."""

    samples: np.ndarray  # float64 [ranks, n, 12]: each rank has its own
    order: np.ndarray  # numbers of the samples, int [n]
    batch: int  # samples of one rank in a step
    rate: float  # the learning rate for that batch
    drawn: list[dict[str, np.ndarray]]  # each rank's own weights, by name
    ranks: tuple[Rank, ...] = ()  # what each rank says

    @property
    def size(self):
        return len(self.drawn)

    @property
    def steps(self):
        """How many steps all ranks made."""
        return min(len(rank.steps) for rank in self.ranks)

    def global_batches(self):
        """Return the numbers of the samples of each step, int ``[steps, batch × ranks]``."""
        size = self.batch * self.size
        return self.order[: len(self.order) // size * size].reshape(-1, size)


def training(file: str, ranks: int, seed: int) -> Training:
    """Have a script launched on ranks, with data of a seed; return what they were given and say.

    AssertionError, if the script is not there, fails, does not end in time, or leaves no record that can be read.
    """
    given = _drawn(ranks, seed)
    inputs = [_input(given, rank) for rank in range(ranks)]
    where = f"{file} on {ranks} ranks"
    reply = launched("ranks", file, inputs, where)
    wrote = [isinstance(rank, dict) and rank.get("wrote") is True for rank in reply["ranks"][:ranks]]
    require(len(wrote) == ranks, f"{where}: {len(wrote)} of them left records")
    read = [_rank(*record, f"{where}: rank {k}") for k, record in enumerate(zip(reply["notes"], wrote, strict=True))]
    return Training(**{**vars(given), "ranks": tuple(read)})


def require(right, sentence: str) -> None:
    """Raise AssertionError with a sentence, unless all is right."""
    if not right:
        raise AssertionError(sentence)


def _drawn(ranks, seed):
    draw = np.random.default_rng(seed)
    count, batch = int(draw.integers(90, 110)), int(draw.integers(6, 10))

    def normal(*shape):
        return draw.normal(size=shape).astype(np.float32).astype(float)

    return Training(
        samples=normal(ranks, count, 12),
        order=draw.permutation(count),
        batch=batch,
        rate=float(np.round(draw.uniform(0.3, 0.6), 2)),
        drawn=[{name: 0.25 * normal(*shape) for name, shape in SHAPES.items()} for _ in range(ranks)],
    )


def _input(given, rank):
    """Return what one rank is handed, for `course.grader.launches`."""
    weights = {name: array.tolist() for name, array in given.drawn[rank].items()}
    task = {"order": given.order.tolist(), "batch": given.batch, "rate": given.rate, "weights": weights}
    return {"given": task, "samples": given.samples[rank].tolist()}


def events(notes: list) -> list[dict]:
    """Return what a rank said itself, of its notes."""
    return [line["note"] for line in notes if "note" in line]


def launched(program: str, file: str, inputs: list[dict], where: str) -> dict:
    """Have a file launched, on a rank for each input; return the reply, or raise AssertionError that says why not."""
    reply = launches.launch({"do": "launch", "program": program, "file": file, "inputs": inputs})
    _explain_failure(reply, where)
    return reply


def _explain_failure(reply, where):
    """Raise the sentence of a launch that did not come to its end."""
    require("missing" not in reply, f"there is no file {reply.get('missing')}: run the cell that writes it")
    require("unwritten" not in reply, f"{reply.get('unwritten')} is still to be written")
    require("ended" not in reply, f"{where}: {reply.get('ended')}")
    require(isinstance(reply.get("ranks"), list), f"{where}: its ranks left no records")
    ranks = [rank for rank in reply["ranks"] if isinstance(rank, dict)]
    noted = dict(enumerate(map(events, reply["notes"])))
    errors = {index: event for index in noted for event in noted[index] if event.get("event") == "error"}
    alone = {
        index
        for index, error in errors.items()
        if error.get("type") in LEFT_ALONE or CLOSED in str(error.get("message"))
    }
    for index in sorted(errors.keys() - alone, key=lambda index: str(errors[index].get("time"))):
        error = errors[index]
        message = " ".join(str(error.get("message")).split())[:MESSAGE]
        raise AssertionError(f"{where}: rank {index} raised {str(error.get('type'))[:100]}{_line(error)}: {message}")
    for index, rank in enumerate(ranks):
        status = rank.get("status")
        require(status in (0, None) or index in alone, f"{where}: rank {index} ended with status {status}")
    if reply.get("late"):  # then ranks are ended one after another, and the last may have noticed
        states = ", ".join(_state(rank, noted[index], index) for index, rank in enumerate(ranks))
        raise AssertionError(f"{where} did not end within {reply.get('seconds', 0):g} s ({states}): {SAME_CALLS}")
    for index in alone:
        raise AssertionError(
            f"{where}: rank {index} waited{_line(errors[index])} for a rank that had ended: {SAME_CALLS}"
        )


def _line(error):
    return f" in line {error['line']}" if isinstance(error.get("line"), int) else ""


def _state(rank, noted, index):
    made = sum(event.get("event") == "step" for event in noted)
    return f"rank {index} {'ended' if rank.get('status') == 0 else 'waits'} after step {made}"


def _rank(notes, wrote, where):
    """Read a rank's notes, for which nobody vouches but for what it read."""
    began, called, steps, samples, sent = [], False, [], [], []
    try:
        for line in notes:
            samples += line.get("read", ())
            event = line.get("note", {})
            match event.get("event"):
                case "sent":
                    sent += _sent(event)
                case "begin":
                    began.append(_weights(event))
                    called, sent = bool(sent), []
                case "step":
                    numbers = np.array(samples, dtype=np.int64).reshape(-1)
                    step = Step(numbers, tuple(sent), float(event["loss"]), int(event["counted"]), _weights(event))
                    steps.append(step)
                    samples, sent = [], []
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise AssertionError(f"{where}'s record cannot be read ({error!r})"[:MESSAGE]) from None
    require(len(began) == 1, f"{where} called `begin` {len(began)} times, not once")
    require(steps, f"{where} noted no step")
    return Rank(began[0], called, tuple(steps), wrote)


def _sent(event):
    """Return the numbers that a collective was given; of bytes, as pickling makes them, at each of four offsets."""
    if event["dtype"] != "uint8":
        return [np.array(event["values"], dtype=float).reshape(-1)]
    data = bytes(event["values"])
    with np.errstate(invalid="ignore"):
        return [np.frombuffer(data[first:], np.float32, (len(data) - first) // 4).astype(float) for first in range(4)]


def _weights(line):
    weights = {name: np.array(line["weights"][name], dtype=float) for name in SHAPES}
    if any(weights[name].shape != shape or not np.isfinite(weights[name]).all() for name, shape in SHAPES.items()):
        raise ValueError("weights of another shape, or not finite")
    return weights
