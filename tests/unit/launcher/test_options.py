"""A misspelled option of a script that is found by name starts nothing; other scripts check their own options."""

import pytest

from ddl import launch
from ddl.launcher.job import JobError
from ddl.launcher.options import check
from ddl.records.paths import runs_dir

PARSES = """
import argparse
from course.training.options import parser

def main():
    ours = parser("")
    add = ours.add_argument
    add("-r", "--recipe", choices=("base", "warmup"))
    add("--sync-bn", action=argparse.BooleanOptionalAction)
    ours.add_argument("--global-batch", type=int)
    ours.parse_args()
    import tensorflow

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Make the scripts of a test the course's."""
    monkeypatch.setattr("ddl.launcher.options.script_folders", lambda: [tmp_path])


@pytest.mark.parametrize(
    "text",
    [
        "import argparse\np = argparse.ArgumentParser()\np.parse_args()",
        "import own\nown.add(parser)\nparser.parse_args()",
        "import tensorflow\nraise KeyboardInterrupt",
    ],
)
def test_where_nothing_can_be_known_nothing_is_refused(script, course, text, monkeypatch):
    check(script(f"# course.training\n{text}"), ["--nonsense"])
    check(script("raise KeyboardInterrupt"), ["--nonsense"])  # it is not even tried
    monkeypatch.undo()
    check(script(PARSES), ["--nonsense"])  # somebody's own


@pytest.mark.parametrize("words", [["--recipe", "base"], ["--recipe=base"], ["--no-sync-bn"], ["-r", "base"], ["-h"]])
def test_what_argparse_takes_is_taken(script, course, words):
    check(script(PARSES), words)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"recipes": "warmup"}, "did you mean 'recipe'?"),
        ({"glob": 64}, "global_batch, no_sync_bn, r, recipe, sync_bn"),
        ({"worker": 2}, "did you mean 'workers'?"),
        ({"args": ["--workers", "2"]}, "before the script"),
        ({"recipe": "x"}, "choose from 'base', 'warmup'"),
    ],
)
def test_a_wrong_option_starts_nothing(script, course, options, hint):
    with pytest.raises(JobError) as refused:
        launch(script(PARSES), **options)
    assert str(refused.value).startswith("script.py") and hint in str(refused.value)
    assert not list(runs_dir().iterdir())
