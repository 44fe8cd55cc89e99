"""What `doctor()` shows in a notebook, and prints."""

from ddl.diagnose.machine import doctor
from ddl.diagnose.report import Check, Report


def test_a_report_shows_code_as_code_and_prints_it_in_backticks():
    report = Report((Check("C++ compiler", "missing", "no `g++`", "install it: `apt-get install g++`"),))
    html = report._repr_html_()
    assert "no <code>g++</code>" in html and "<code>apt-get install g++</code>" in html and "`" not in html
    assert "`apt-get install g++`" in repr(report)


def test_this_machine_s_report_has_no_backticks():
    assert "`" not in doctor()._repr_html_()
