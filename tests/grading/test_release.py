"""A release holds what its lesson's notebook does, whatever a site sets."""

import pytest

pytestmark = pytest.mark.slow


def test_release_is_the_lesson_whatever_a_site_sets(course, tiny, tmp_path):
    settings = tmp_path / "jupyter"
    settings.mkdir()
    (settings / "nbgrader_config.py").write_text(
        "c = get_config()\nc.ClearHiddenTests.begin_test_delimeter = 'NO SUCH TEXT'\n"
    )
    env = course.env
    course.env = lambda: env() | {"JUPYTER_CONFIG_DIR": str(settings)}
    (course.folder / "source" / tiny.name / "draft.txt").write_text("canary_in_a_draft")
    course("release", "--sources", tiny.sources)
    released = [path for path in (course.folder / "release" / tiny.name).rglob("*") if path.is_file()]
    assert {path.name for path in released} == {f"{tiny.name}.ipynb", "batch_norm.svg"}
    assert not any("canary" in path.read_text() for path in released)
    assert len(course.notebook("release").cells) == len(tiny.released.cells)
