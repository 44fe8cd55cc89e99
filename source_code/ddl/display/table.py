"""DataFrames that display rounded values with units and a caption."""

import math
from numbers import Real

import pandas

from ddl.display.html import html_table, prose


def is_number(value):
    return isinstance(value, Real) and not math.isnan(value)


class Table(pandas.DataFrame):
    """A DataFrame of unrounded values that displays them rounded, with units and a caption."""

    @property
    def _constructor(self):
        return pandas.DataFrame  # selections and sorted copies are ordinary pandas

    @classmethod
    def of(cls, rows, caption):
        """Build a table from dictionaries; only values given as ``(value, label, format)`` are displayed.

        A format may be a function that returns the text for a row.
        """
        labels, values = {}, []
        for row in rows:
            labels |= {name: value[1:] for name, value in row.items() if isinstance(value, tuple)}
            values.append({name: value[0] if isinstance(value, tuple) else value for name, value in row.items()})
        table = cls(values)
        table.attrs.update(labels=labels, caption=caption)
        return table

    def readable(self):
        """Return the displayed columns as text."""
        rows = self.to_dict("records")
        return pandas.DataFrame(
            {
                label: [form(row) if callable(form) else cell(row[column], form) for row in rows]
                for column, (label, form) in self.attrs["labels"].items()
            }
        )

    def __repr__(self):
        return f"{self.readable().to_string(index=False)}\n{self.attrs['caption']}"

    def _repr_html_(self):
        cells, caption = self.readable(), prose(self.attrs["caption"])
        return html_table(cells.columns, cells.to_numpy(), under=f'<div class="ddl-under">{caption}</div>')


def cell(value, form="g"):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return format(value, form) if is_number(value) else str(value)
