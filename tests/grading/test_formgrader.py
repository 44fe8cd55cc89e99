"""nbgrader's formgrader in a real browser: a mark is entered and reaches feedback."""

import csv
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from nbgrader.api import Gradebook

from helpers import ROOT, free_port, until

pytestmark = pytest.mark.slow

TOKEN = "formgrader-test"
OUTSIDE = "http://192.0.2.1"  # an address that is nobody's


@pytest.fixture
def server(course, tmp_path):
    """Return a function that starts the formgrader and gives the address of its pages."""
    processes = []

    def start():
        port = free_port()
        log = open(tmp_path / "formgrader.log", "wb")
        env = course.env() | {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
        command = [sys.executable, "-m", "marking", "--course", course.folder, "formgrader", f"--port={port}"]
        command += ["--ip=127.0.0.1", "--no-browser", "--allow-root", f"--IdentityProvider.token={TOKEN}"]
        processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=ROOT))
        log.close()
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/api/status?token={TOKEN}"), 60, (tmp_path / "formgrader.log").read_text)
        return url

    yield start
    for process in processes:
        process.terminate()
        process.wait(30)


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def commented(course, student):
    name = course.lesson.name
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as gradebook:
        return gradebook.find_comment("q03_why", name, name, student).manual_comment


@pytest.fixture
def marked(course, hand_in, tiny):
    """Ann has solved everything; Bob attacks the person who opens his answer."""
    hand_in("ann.ipynb", tiny.right())
    hostile = tiny.right()
    tiny.answer(hostile, "q03_why").source = (
        "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>\n"
        "[1](javascript:window.pwned=3) [2](&#106;avascript:window.pwned=4) `<b>code</b>` $a<b$\n"
        "[3](JavaScript\\:window.pwned=5) [4][x]\n\n[x]: javascript&colon;window.pwned=6\n\n"
        "$\\href{javascri\npt:window.pwned=7}{a}$ $\\href{java\tscript:window.pwned=8}{b}$ "
        "$\\def\\x#1{\\href{java#1:window.pwned=9}{c}}\\x{script}$ $\\frac{1}{2}$ "
        "$\\mmlToken{mi}[href=java\nscript:window.pwned=10]{d}$ $\\require{physics}$ "
        f"$\\style{{background:url({OUTSIDE}/s)}}{{e}}$\n\n![]({OUTSIDE}/a.png)\n\n![][p]\n\n"
        f"[p]: {OUTSIDE}/b.png\n"
    )
    hand_in("bob.ipynb", hostile)
    course("collect", "--from", hand_in.folder)
    course("autograde")
    return course


def open_page(browser, url, course, student):
    """Open the page on which a student's hand-in gets its marks."""
    name = course.lesson.name
    with Gradebook(f"sqlite:///{course.folder / 'gradebook.db'}") as gradebook:
        submission = gradebook.find_submission_notebook(name, name, student).id
    page = browser.new_context(viewport={"width": 1280, "height": 1400}).new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(f"{url}/formgrader?token={TOKEN}")  # the address that is printed
    page.goto(f"{url}/formgrader/submissions/{submission}/")
    page.locator("input#q03_why").wait_for()
    return page


def harmless(page, url):
    """Formulas are drawn with the page's own script; none of them links or loads anything."""
    page.wait_for_selector("mjx-container svg [data-mml-node=mfrac]", state="attached")
    asked = [address for address in page.asked if not address.startswith((url, "data:", "blob:"))]
    assert asked == [] and page.asked
    inside = page.evaluate("""[...document.querySelectorAll('mjx-container *')].flatMap(
        part => [...part.attributes].map(attribute => attribute.value)).join(' ')""")
    assert "pwned" not in inside and "192.0.2.1" not in inside
    assert (
        page.evaluate("""[...document.images].filter(
        image => image.naturalWidth && !image.src.startsWith('data:')).length""")
        == 0
    )
    protocols = page.evaluate("[...document.links].map(link => link.protocol)")
    assert protocols and not {"javascript:", "data:", "vbscript:"} & set(protocols)
    assert page.evaluate("window.pwned") is None


def needs_its_token_and_starts_no_kernel(url):
    page = urllib.request.urlopen(f"{url}/formgrader/manage_assignments?token={TOKEN}").read().decode()
    assert "Manage Assignments" in page and "exchange directory" not in page
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{url}/api/contents")
    request = urllib.request.Request(
        f"{url}/api/kernels",
        data=b"{}",
        method="POST",
        headers={"Authorization": f"token {TOKEN}", "Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request)


def test_mark_entered_in_the_browser_reaches_feedback(browser, server, marked):
    course, name, url = marked, marked.lesson.name, server()
    needs_its_token_and_starts_no_kernel(url)
    page = open_page(browser, url, course, "ann")
    assert "3 points: canary in a mark scheme" in page.content()
    assert course.rows()["ann"].waiting == 1
    page.wait_for_function("window.formgrader && formgrader.keyboard_manager")  # its shortcuts
    box = page.locator("input#q03_why")
    page.wait_for_function("document.querySelector('input#q01_mean_test').placeholder === '2'")
    box.fill("2.5")
    box.press("Tab")
    comment = page.locator(".nbgrader_cell:has(input#q03_why) textarea.comment")
    comment.fill("Say why the sum is that.")
    comment.press("Tab")
    until(
        lambda: course.rows()["ann"].manual == 2.5 and commented(course, "ann"),
        30,
        lambda: course.rows()["ann"],
        page.wait_for_timeout,
    )
    course("feedback")  # Bob's answer has no mark
    course("grades")
    html = (course.folder / "feedback" / "ann" / name / f"{name}.html").read_text()
    assert "Say why the sum is that." in html and "2.5 / 3" in html.replace(".0", "")
    with open(course.folder / "grades.csv", newline="") as file:
        ann = next(row for row in csv.DictReader(file) if row["student"] == "ann")
    assert (ann["auto"], ann["manual"], ann["total"]) == ("5.0", "2.5", "7.5")


def test_hostile_answer_runs_nothing_in_the_formgrader(browser, server, marked):
    url = server()
    page = open_page(browser, url, marked, "bob")
    harmless(page, url)
    assert "pwned" in page.evaluate("[...document.links].map(link => link.href).join(' ')")
    assert "<script>" in page.inner_text("body").replace("\u200b", "")
    marked("feedback")
    returned = browser.new_page()
    returned.asked = []
    returned.on("request", lambda request: returned.asked.append(request.url))
    name = marked.lesson.name
    returned.goto((marked.folder / "feedback" / "bob" / name / f"{name}.html").as_uri())
    harmless(returned, (marked.folder / "feedback").as_uri())
