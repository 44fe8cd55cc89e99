"""The difference of two scripts: the lines that count, and nothing else."""

import re

import pytest

from ddl.analysis.difference import difference
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


def test_comments_docstrings_empty_and_indented_lines_are_not_counted(pair):
    assert (pair.added, pair.removed) == (2, 1)


def test_text_and_html_have_the_same_signs(pair):
    text, html = repr(pair), pair._repr_html_()
    assert text.splitlines()[0] == ("a/first.py → a/second.py: 2 lines more, 1 fewer, comments not counted")
    assert " 13 +     fit(model, data, 2)" in text and " 11 −     fit(model, data)" in text
    assert " 10 +     with scope(&quot;&lt;all&gt;&quot;):" in html and "<all>" not in html
    assert html.count('class="added"') == 3 and html.count('class="removed"') == 1


def test_a_script_does_not_differ_from_itself(script):
    path = script(FIRST)
    same = difference(path, path)
    assert same.lines == () and (same.added, same.removed) == (0, 0)


def test_a_script_that_is_not_there_is_named():
    with pytest.raises(JobError, match="no script 'strategies/nonsense.py'"):
        difference("strategies/single.py", "strategies/nonsense.py")


def test_mirroring_a_fit_takes_a_few_lines():
    found = difference("strategies/single.py", "strategies/mirrored.py")
    texts = {line.text.strip() for line in found.lines if line.kind == "added"}
    assert "strategy = tf.distribute.MirroredStrategy(experiment.devices())" in texts
    assert found.added <= 4


@pytest.mark.parametrize("other", ["multi_worker", "loop", "horovod_loop", "parameter_server"])
def test_what_a_way_needs_fits_on_a_page(other):
    first = "single" if other in ("multi_worker", "loop") else "loop"
    assert 0 < difference(f"strategies/{first}.py", f"strategies/{other}.py").added <= 35


def test_the_way_out_fits_on_a_page_and_has_horovods_six_steps():
    found = difference("strategies/horovod_loop.py", "strategies/torch_ddp.py")
    assert 0 < found.added <= 35
    script = (source_dir() / "strategies/torch_ddp.py").read_text()
    steps = "".join(re.findall(r"# Horovod ([\d and]+):", script))
    assert sorted(re.findall(r"\d", steps)) == list("123456")
