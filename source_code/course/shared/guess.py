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

    @property
    def right(self) -> bool:
        """Whether the guess is the outcome, up to 1 % if both are numbers."""
        if isinstance(self.guess, Real) and isinstance(self.outcome, Real):
            return self.guess == self.outcome or abs(self.guess - self.outcome) <= 0.01 * abs(self.outcome)
        return self.guess == self.outcome


class Bets(dict):
    """A reader's bets, by what they are about: shown with the sum of those that are right."""

    def _sum(self):
        made = sum(each.guess is not None for each in self.values())
        return f"{sum(each.right for each in self.values())} of {len(self)} bets right, {made} made"

    def __repr__(self):
        return "\n".join([*map(repr, self.values()), self._sum()])

    def _repr_html_(self):
        rows = [
            (each.what, each._guess(), f"outcome: {_shown(each.outcome)}", "right" if each.right else "")
            for each in self.values()
        ]
        return html_table((), rows, under=Markup(f"<b>{prose(self._sum())}</b>"))


def compare_guess(guess: object, outcome: object, what: str, bets: Bets | None = None) -> GuessComparison:
    """Compare a guess (a number, a word or None) with the computed or measured value, and note it in `bets`."""
    compared = GuessComparison(what, guess, outcome)
    if bets is not None:
        bets[what] = compared
    return compared


def _shown(value):
    if isinstance(value, Real) and not isinstance(value, (bool, int)):
        return f"{float(value):.4g}"
    return str(value)
