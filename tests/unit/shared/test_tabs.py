import pytest

from course import Tabs
from ddl.job.job import JobError


def test_each_script_has_a_tab_with_its_steps_highlighted(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1 < 2  # 1 initialize\ny = 2  # no step\n")
    tabs = Tabs({"first": path, "second": "recipe_fit.py"})
    html = tabs._repr_html_()
    assert html.count('type="radio"') == 2 and html.count("checked>") == 1
    assert "<b>x = 1 &lt; 2  # 1 initialize</b><br>y = 2  # no step" in html
    assert "hvd.DistributedOptimizer" in repr(tabs) and repr(tabs).startswith("first\n")
    with pytest.raises(JobError):
        Tabs({"none": "no_such_script.py"})
