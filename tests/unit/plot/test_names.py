"""Names of figures: each is one module's."""

from collections import Counter

from course import plot


def test_each_figure_is_one_modules():
    names = Counter(name for names in plot._MODULES.values() for name in names.split())
    assert [name for name, modules in names.items() if modules > 1] == []
    assert set(names) == set(plot.__all__)
