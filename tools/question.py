"""Add a question to a lesson, or check one that is there: `make question LESSON=1 ID=q08_mean`.

A new question gets a prompt, an answer, a test, hints and variants, all to be filled in. For one that is there, its
model answer, right and wrong variants, and notebook are checked.
"""

import re
import subprocess
import sys

import lessons

VARIANTS = lessons.ROOT / "tests" / "grading" / "variants"
ID = re.compile(r"q(\d\d)_([a-z_]+)")
END = re.compile(r"^# %% \[markdown\]\n(?:#[^\n]*\n)*?# ## Your answers so far", re.MULTILINE)
ANSWER = '{"grade": false, "grade_id": "ID", "locked": false, "schema_version": 3, "solution": true, "task": false}'
TEST = (
    '{"grade": true, "grade_id": "ID_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, '
    '"task": false}'
)
QUESTION = f"""\
# %% [markdown]
# **Question NUMBER** (1 point)
#
# Write `NAME(x)`: TODO, what it returns, and for which input.

# %% nbgrader={ANSWER}
def NAME(x):
    \"\"\"Return TODO.\"\"\"
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION

# %% [markdown] tags=["hints"]
# ID
#
# 1. TODO: a nudge.
# 2. TODO: the idea.
# 3. `TODO, the first line`

# %% nbgrader={TEST} tags=["raises-exception"]
value = NAME(1)
assert value == 1, f"NAME(1) returned {{value}}, not 1"
### BEGIN HIDDEN TESTS
assert NAME(2) == 2
### END HIDDEN TESTS

"""
VARIANT = """
# %% ID right
# TODO: the style: `return x` -> `return x + 0`

# %% ID wrong
# TODO: a misconception: `return x` -> `return x**2`
"""


def main(lesson: str, name: str) -> int:
    match = ID.fullmatch(name)
    sources = lessons.begins_so(lesson, lessons.sources(lessons.ROOT))
    if not match or len(sources) != 1:
        sys.exit("question: LESSON names one lesson, such as 1, and ID is like q08_mean")
    (source,) = sources
    text = source.read_text()
    if f'"{name}"' in text:
        tests = [
            "tests/grading/test_variants.py",
            "tests/notebooks/test_questions.py",
            "tests/notebooks/test_lessons.py",
        ]
        chosen = f"{name} or {source.stem.partition('.')[0]}. or sources"
        return subprocess.call(
            [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not nightly", "-k", chosen, *tests]
        )
    end = END.search(text)
    if not end:
        sys.exit(f"question: {source.name} has no cell with '## Your answers so far', before which questions stand")

    def filled(template):
        return template.replace("NUMBER", str(int(match[1]))).replace("NAME", match[2]).replace("ID", name)

    source.write_text(text[: end.start()] + filled(QUESTION) + text[end.start() :])
    with open(VARIANTS / source.name, "a") as variants:
        variants.write(filled(VARIANT))
    print(f"{source.relative_to(lessons.ROOT)} and tests/grading/variants/{source.name}: fill in each TODO, then")
    print(f"`make notebooks question LESSON={lesson} ID={name}` checks the question.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
