"""Boxes, arrows and text as SVG, in the colors of the course's diagrams."""

import textwrap
from html import escape

from course.shared.themes import themed

BLUE, ORANGE, GREEN, GRAY, INK = "#0072B2", "#D55E00", "#009E73", "#767676", "#222222"
TINT = {BLUE: "#e8f2f9", ORANGE: "#fcefe6", GREEN: "#e6f5f0", GRAY: "#f6f6f6"}
LINE = 17  # from one line of text to the next


class Drawing:
    """An SVG picture on a card, white on light pages and dark on dark ones."""

    def __init__(self, width, height, title, description):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-labelledby="title description" '
            f'font-family="system-ui, \'DejaVu Sans\', sans-serif" font-size="13" fill="{INK}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>'
            "</defs>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def text(self, x, y, text, anchor="start", bold=False, color=INK):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}"{weight} fill="{color}">{escape(text)}</text>')

    def box(self, x, y, width, height, heading, body="", color=BLUE, dashed=False):
        """A box with a bold heading and wrapped text under it; lines of `body` stay lines."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
            f'fill="{TINT[color]}" stroke="{color}" stroke-width="1.6"{dashes}/>'
        )
        self.text(x + 10, y + 22, heading, bold=True)
        characters = int((width - 20) / 7.6)
        lines = [line for part in body.splitlines() for line in textwrap.wrap(part, characters)]
        for number, line in enumerate(lines):
            self.text(x + 10, y + 22 + LINE * (number + 1) + 3, line)

    def bar(self, x, y, width, height, color, filled=True):
        """A plain rectangle; one that is not `filled` is an empty outline."""
        look = f'fill="{TINT[color]}" stroke="{color}"' if filled else f'fill="none" stroke="{color}" opacity="0.5"'
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" {look} stroke-width="1.4"/>')

    def arrow(self, *points, label="", at=None):
        path = "M" + "L".join(f"{x} {y}" for x, y in points)
        self.parts.append(f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.4" marker-end="url(#tip)"/>')
        if label:
            self.text(*at, label, anchor="middle", color=GRAY)

    def ranks(self, left, y):
        """Eight ranks in a row."""
        for rank in range(8):
            self.parts.append(
                f'<circle cx="{left + 38 * rank}" cy="{y}" r="12" fill="{TINT[BLUE]}" '
                f'stroke="{BLUE}" stroke-width="1.6"/>'
            )
            self.text(left + 38 * rank, y + 4, str(rank), anchor="middle")

    def arc(self, left, y, start, end, both=False, lift=1.0):
        """A curved arrow from one rank of such a row to another."""
        a, b = left + 38 * start, left + 38 * end
        height = y - 14 - lift * (10 + 6 * abs(end - start))
        back = ' marker-start="url(#tip)"' if both else ""
        self.parts.append(
            f'<path d="M{a} {y - 13}Q{(a + b) / 2} {height} {b} {y - 13}" fill="none" '
            f'stroke="{INK}" stroke-width="1.3" marker-end="url(#tip)"{back}/>'
        )

    def svg(self):
        return themed("\n".join([*self.parts, "</svg>", ""]))
