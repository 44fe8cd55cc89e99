"""The difference of two scripts: the lines that count, and nothing else."""

import re

import pytest

from course.workers.difference import difference
from ddl.launcher.job import JobError
from ddl.records.paths import source_dir

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
    assert (pair.added, pair.removed) == (2, 1)  # without the comment
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


def test_text_and_html_have_the_same_signs(pair):
    text, html = repr(pair), pair._repr_html_()
    assert text.splitlines()[0].startswith("a/first.py → a/second.py: 2 lines more, 1 fewer")
    assert " 13 +     fit(model, data, 2)" in text and " 11 −     fit(model, data)" in text
    assert " 10 +     with scope(&quot;&lt;all&gt;&quot;):" in html and html.count('class="added"') == 3
    with pytest.raises(JobError, match="no script 'strategies/nonsense.py'"):
        difference("strategies/single.py", "strategies/nonsense.py")


def test_the_torch_script_has_horovods_six_steps():
    script = (source_dir() / "strategies/torch_ddp.py").read_text()
    steps = "".join(re.findall(r"# Horovod ([\d and]+):", script))
    assert sorted(re.findall(r"\d", steps)) == list("123456")
