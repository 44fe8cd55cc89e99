"""A saved notebook that is opened again shows the last picture and hint."""

import pytest

from course.lab.hints import steps_of

SLIDER = """
from course.gradients import descent, plot_descent
data = descent.generated(16)
plot_descent.slider(lambda lr: plot_descent.plot_descent(data, lr=lr, iterations=3), "lr", 0.001, 1, 0.1)
"""
HINT = """
from course.lab import question_status
question_status._offer_hints("q01_gradients")
"""


@pytest.mark.slow
def test_last_picture_and_hint_stay_after_a_reload(lab, open_notebook):
    assert "q01_gradients" in steps_of("1.Gradient-Basics")
    tab = open_notebook(lab.notebook("notebooks/1.Gradient-Basics.ipynb", [SLIDER, HINT]), width=900)
    tab.run_all()
    picture, handle = tab.page.locator(".ddl-picture"), tab.page.get_by_role("slider").first
    picture.wait_for(timeout=60_000)
    first = picture.get_attribute("alt")
    handle.focus()
    handle.press("ArrowRight")
    tab.page.wait_for_function("first => document.querySelector('.ddl-picture').alt != first", arg=first)
    tab.page.get_by_role("button", name="Hint").click()
    tab.page.get_by_text("hint 1 of").wait_for()
    tab.wait_until_idle(60)
    last = picture.get_attribute("alt")
    tab.screenshot("saved-before")
    tab.saved()
    tab.page.reload()
    picture.wait_for(timeout=60_000)
    assert picture.get_attribute("alt") == last != first
    tab.page.get_by_text("hint 1 of").wait_for()
    assert tab.page.get_by_role("slider").count() == 0
    assert tab.page.get_by_text("run this cell to have it again").count() == 2
    tab.screenshot("saved-after")
