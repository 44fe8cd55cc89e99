"""A misspelt option is refused by the script's text, and where the text does not tell, nothing is."""

import pytest

from ddl import launch
from ddl.launcher.job import JobError
from ddl.launcher.options import check, known
from ddl.records.paths import runs_dir

PARSES = """
import argparse
from ddl.training.options import parser as ours
import nowhere

parser = argparse.ArgumentParser()
add = parser.add_argument
add("-r", "--recipe", choices=("base", "warmup"))
add("--sync-bn", action=argparse.BooleanOptionalAction)
parser.add_argument("--global-batch", type=int)
seen.add(anything)
nowhere.parse(f"--{anything}")
parser.parse_args()
"""
HAS = {"--help", "--recipe", "--sync-bn", "--no-sync-bn", "--global-batch"}


def test_options_are_read_from_the_text(script):
    assert known(script(PARSES)) == HAS


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nprint(sys.argv)",
        PARSES.replace("parse_args", "parse_known_args"),
        PARSES + "for name in names:\n    parser.add_argument(name)",
        PARSES + "parser.add_argument(*names)",
        "no Python",
    ],
)
def test_where_the_text_does_not_tell_nothing_is_refused(script, text):
    path = script(text)
    assert known(path) is None
    check(path, ["--nonsense"])


@pytest.mark.parametrize(
    "words", [["--recipe", "base"], ["--recipe=base"], ["--glob", "64"], ["--no-sync-bn"], ["--", "--recipes"], ["-x"]]
)
def test_what_argparse_takes_is_taken(script, words):
    check(script(PARSES), words)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"recipes": "warmup"}, "script.py has no option recipes: did you mean 'recipe'?"),
        ({"worker": 2}, "script.py has no option worker: did you mean 'workers'?"),
        ({"sync-bnn": True}, "script.py has no option sync_bnn: did you mean 'sync_bn'?"),
        ({"nonsense": 1}, "script.py has no option nonsense; it has global_batch, no_sync_bn, recipe, sync_bn"),
    ],
)
def test_a_misspelt_option_starts_nothing(script, options, said):
    with pytest.raises(JobError) as refused:
        launch(script(PARSES), **options)
    assert str(refused.value) == said
    assert not list(runs_dir().iterdir())


def test_a_script_without_options_says_so():
    with pytest.raises(JobError, match="hello.py has no option speed; it has none"):
        launch("hello.py", speed=1)
