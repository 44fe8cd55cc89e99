"""A report of checks: what was found, and what to do about it."""

from dataclasses import dataclass

from ddl.display.html import html_table, prose

SIGNS = {"OK": "✓", "missing": "✗", "optional": "–"}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    state: str  # "OK", "missing", or "optional": not found, but the course works without it
    detail: str  # what was found
    advice: str = ""  # what to do, if anything


def missing(name: str, detail: str, advice: str) -> Check:
    """Return the result of a check that found something missing: what it is, and what to do."""
    return Check(name, "missing", detail, advice)


@dataclass(frozen=True)
class Report:
    """All checks; prints as lines, shows as a table in a notebook."""

    checks: tuple[Check, ...]

    @property
    def ok(self):
        """Whether everything that the course needs is there."""
        return all(check.state != "missing" for check in self.checks)

    def _conclusion(self):
        missing = [check.name for check in self.checks if check.state == "missing"]
        if missing:
            return f"Not ready. First see to: {', '.join(missing)}."
        return "Ready: everything that the lessons need is here."

    def __repr__(self):
        width = max(len(check.name) for check in self.checks)
        lines = []
        for check in self.checks:
            name = f"{SIGNS[check.state]} {check.state:<8}  {check.name:<{width}}"
            lines.append(f"{name}  {check.detail}")
            if check.advice:
                lines.append(f"{'':{width + 12}}  → {check.advice}")
        return "\n".join([*lines, self._conclusion()])

    def _repr_html_(self):
        rows = [
            (f"{SIGNS[check.state]}\N{NO-BREAK SPACE}{check.state}", check.name, check.detail, check.advice)
            for check in self.checks
        ]
        conclusion = f"<b>{prose(self._conclusion())}</b>"
        return html_table(("state", "what", "found", "what to do"), rows, conclusion, 'class="ddl-doctor"')
