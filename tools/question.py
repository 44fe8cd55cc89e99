"""Add a question to a lesson, or check one that is there: `make question LESSON=1 ID=q03_mean`.

A new question gets a prompt, an answer, a test, hints and variants, all to be filled in. For one that is there, its
model answer, right and wrong variants, and notebook are checked.
"""

import re
import subprocess
import sys
from string import Template

import lessons

VARIANTS = lessons.ROOT / "tests" / "grading" / "variants"
ID = re.compile(r"q(\d\d)_([a-z_]+)")
HEADING = re.compile(r"^# ## ", re.MULTILINE)
CELL = re.compile(r"^# %% \[markdown\].*\n", re.MULTILINE)
ANSWER = '{"grade": false, "grade_id": "$id", "locked": false, "schema_version": 3, "solution": true, "task": false}'
TEST = (
    '{"grade": true, "grade_id": "${id}_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, '
    '"task": false}'
)
QUESTION = f"""\
# %% [markdown]
# **Question $number** (1 point)
#
# Write `$name(x)`: TODO, what it returns, and for which input.

# %% nbgrader={ANSWER}
def $name(x):
    \"\"\"Return TODO.\"\"\"
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# $id
#
# 1. TODO: a nudge.
# 2. TODO: the idea.
# 3. `TODO, the first line`

# %% nbgrader={TEST} tags=["raises-exception"]
value = $name(1)
assert value == 1, f"$name(1) returned {{value}}, not 1"
### BEGIN HIDDEN TESTS
assert $name(2) == 2
### END HIDDEN TESTS

"""
VARIANT = """

# %% $id right
# TODO: the style: `return x` -> `return x + 0`

# %% $id wrong
# TODO: a misconception: `return x` -> `return x**2`
"""


def added(text: str, name: str) -> str:
    """Return a lesson's text with a new question, at the end of the section with the last one.

    There it stands after what that section's runs are followed by. If the next heading is inside a cell, the cell is
    cut in front of it. Without a next heading, returns an empty text.
    """
    heading = HEADING.search(text, text.rfind("nbgrader={"))
    if not heading:
        return ""
    before, after = text[: heading.start()], text[heading.start() :]
    cell = CELL.findall(before)[-1]
    number, function = ID.fullmatch(name).groups()
    question = Template(QUESTION).substitute(id=name, name=function, number=int(number))
    before = before.removesuffix(cell).rstrip("#\n ")
    return f"{before}\n\n{question}{cell}{after}"


def following(text: str) -> str:
    """Return the number of a lesson's next question, such as "q03"."""
    have = map(int, re.findall(r'"grade_id": "q(\d\d)_', text))
    return f"q{max(have, default=0) + 1:02}"


def main(lesson: str, name: str) -> int:
    sources = lessons.begins_so(lesson, lessons.sources(lessons.ROOT))
    if not ID.fullmatch(name) or len(sources) != 1:
        sys.exit("question: LESSON names one lesson, such as 1, and ID is like q03_mean")
    (source,) = sources
    text = source.read_text()
    if f'"{name}"' in text:
        tests = [
            "tests/grading/test_variants.py",
            "tests/notebooks/test_questions.py",
            "tests/notebooks/test_new_question.py",
            "tests/notebooks/test_lessons.py",
        ]
        chosen = f"{name} or {source.stem.partition('.')[0]}. or every_question or check_says or template"
        return subprocess.call(
            [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not nightly", "-k", chosen, *tests]
        )
    if name[:3] != (number := following(text)):
        sys.exit(f"question: the next of {source.name} begins with {number}_, not {name[:4]}")
    longer = added(text, name)
    if not longer:
        sys.exit(f"question: {source.name} has no heading after its last question, before which the next would stand")
    source.write_text(longer)
    with open(VARIANTS / source.name, "a") as variants:
        variants.write(Template(VARIANT).substitute(id=name))
    print(f"{source.relative_to(lessons.ROOT)} and tests/grading/variants/{source.name}: fill in each TODO, then")
    print(f"`make notebooks question LESSON={lesson} ID={name}` checks the question.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
