"""The bug hunt's text does not reveal the cases."""

import re

from helpers import ROOT


def test_the_text_does_not_say_which_case_has_which_mistake():
    text = (ROOT / "source_code/course/multi_gpu/scripts/bug_hunt.py").read_text()
    code = text.partition('"""\n')[2].partition('"""')[2]
    assert "has(case, " in code
    assert not re.findall(r"case\s*(?:[=!]=|in\b)(?!\s*\"G\")|[\"'][A-F][\"']", code)
