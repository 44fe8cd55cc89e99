"""Counterparts in PyTorch and JAX: each is Python, and each is shown once."""

import ast
import re

import pytest

from course.sharding.counterparts import CODE, Counterparts
from helpers import ROOT


@pytest.mark.parametrize("topic", CODE)
def test_a_tab_for_each_library(topic):
    tabs = Counterparts(topic)
    assert list(CODE[topic]) == ["PyTorch", "JAX"]
    for text in tabs._texts.values():
        assert ast.parse(text).body
    assert tabs._repr_html_().count("<label") == 2


def test_each_topic_is_shown_once():
    lessons = "".join(path.read_text() for path in (ROOT / "lessons").glob("6*.py"))
    assert sorted(re.findall(r'Counterparts\("(.+)"\)', lessons)) == sorted(CODE)
