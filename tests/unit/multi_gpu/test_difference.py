"""The difference of two scripts: the lines that count, and nothing else."""

import pytest

from course.multi_gpu.difference import difference

FIRST = '''
    """Words."""

    import tf


    def main():
        """Other words."""
        data = load()
        model = build()
        fit(model, data)
        finish(model)
    '''

SECOND = '''
    """Quite other words."""

    import tf


    def main():
        data = load()
        # Each device has a copy.
        with scope("<all>"):
            model = build()

        fit(model, data, 2)
        finish(model)
    '''


@pytest.fixture
def pair(script):
    return difference(script(FIRST, "a/first.py"), script(SECOND, "a/second.py"))


def test_only_changed_lines_with_their_sign_and_number(pair):
    assert (pair.count("added"), pair.count("removed")) == (2, 1)  # without the comment
    shown = [(line.kind, line.number, line.text.strip()) for line in pair.lines]
    assert shown == [
        ("gap", None, ""),
        ("same", 8, "data = load()"),
        ("added", 9, "# Each device has a copy."),
        ("added", 10, 'with scope("<all>"):'),
        ("same", 11, "model = build()"),
        ("removed", 11, "fit(model, data)"),
        ("added", 13, "fit(model, data, 2)"),
        ("same", 14, "finish(model)"),
    ]
