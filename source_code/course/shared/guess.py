"""A reader's guess next to the outcome."""

from dataclasses import dataclass
from numbers import Real

from ddl.display.html import Markup, html_table, prose


@dataclass(frozen=True)
class GuessComparison:
    """A guess (None if none was made) and an outcome: a small table in a notebook, a line in a terminal."""

    what: str  # what was guessed, with its unit
    guess: object
    outcome: object

    def __repr__(self):
        return f"{self.what}: {self._guess()} · outcome: {_shown(self.outcome)}"

    def _repr_html_(self):
        outcome = Markup(f"outcome: <b>{prose(_shown(self.outcome))}</b>")
        return html_table((), [(Markup(f"<b>{prose(self.what)}</b>"), self._guess(), outcome)])

    def _guess(self):
        return "no guess" if self.guess is None else f"your guess: {_shown(self.guess)}"


def compare_guess(guess: object, outcome: object, what: str) -> GuessComparison:
    """Compare a guess (a number, a word or None) with the computed or measured value."""
    return GuessComparison(what, guess, outcome)


def _shown(value):
    if isinstance(value, Real) and not isinstance(value, (bool, int)):
        return f"{float(value):.4g}"
    return str(value)
