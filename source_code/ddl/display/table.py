"""Tables that a notebook shows rounded, with units and a caption."""

import math
from numbers import Real

import pandas

from ddl.display.html import html_table, prose


def is_number(value):
    return isinstance(value, Real) and not math.isnan(value)


class Shown(pandas.DataFrame):
    """A DataFrame with plain values that is shown rounded, with units and a caption."""

    @property
    def _constructor(self):
        return pandas.DataFrame  # a column or row taken out of the table is ordinary pandas again

    def readable(self):
        """Return the table as text cells, the way that it is shown."""
        raise NotImplementedError

    def _caption(self):
        raise NotImplementedError

    def __repr__(self):
        return f"{self.readable().to_string(index=False)}\n{self._caption()}"

    def _repr_html_(self):
        cells = self.readable()
        return html_table(
            cells.columns, cells.to_numpy(), under=f'<div class="ddl-under">{prose(self._caption())}</div>'
        )


class Table(Shown):
    """A table whose columns each have a label and a format."""

    @classmethod
    def of(cls, rows, labels, caption):
        """Make a table of dictionaries, with ``{column: (label, format)}`` of what is shown."""
        table = cls(rows)
        table.attrs.update(labels=labels, caption=caption)
        return table

    def readable(self):
        return pandas.DataFrame(
            {
                label: [cell(value, form) for value in self[column]]
                for column, (label, form) in self.attrs["labels"].items()
            }
        )

    def _caption(self):
        return self.attrs["caption"]


def cell(value, form="g"):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return format(value, form) if is_number(value) else str(value)
