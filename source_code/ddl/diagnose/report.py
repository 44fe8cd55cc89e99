"""Reports of checks, with findings and advice."""

from dataclasses import dataclass

from ddl.display.html import html_table, prose

SIGNS = {"OK": "✓", "missing": "✗", "optional": "–"}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    state: str  # "OK", "missing", or "optional" (not found, but not needed)
    detail: str  # the finding
    advice: str = ""


def missing(name: str, detail: str, advice: str) -> Check:
    """Return the result of a failed check, with the finding and what to do."""
    return Check(name, "missing", detail, advice)


@dataclass(frozen=True)
class Report:
    """The results of all checks: lines in a terminal, a table in a notebook."""

    checks: tuple[Check, ...]

    @property
    def ok(self):
        """Whether nothing needed is missing."""
        return all(check.state != "missing" for check in self.checks)

    def _conclusion(self):
        missing = [check.name for check in self.checks if check.state == "missing"]
        if missing:
            return f"Not ready. Fix first: {', '.join(missing)}."
        return "Ready: everything that is needed is here."

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
