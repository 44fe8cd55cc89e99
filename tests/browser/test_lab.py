"""The server that `ddl lab` opens."""

import json

import nbformat
import psutil
import pytest

from helpers import ROOT, until

SCREENSHOTS = ROOT / "build" / "screenshots"

CHANNELS = 5


def kernels_are_not_reached_over_tcp(lab):
    kernel = lab.api("kernels", method="POST")["id"]
    server = psutil.Process(lab.process.pid)

    def channels():
        return {each.laddr for each in psutil.net_connections(kind="unix") if f"kernel-{kernel}-ipc-" in each.laddr}

    until(lambda: len(channels()) == CHANNELS, 60, "no kernel started")
    assert {each.laddr.port for each in server.net_connections(kind="inet")} == {lab.port}
    lab.stop_kernels()
    until(lambda: not channels(), 20, "the kernel did not end")
    assert {each.laddr.port for each in server.net_connections(kind="inet")} == {lab.port}


@pytest.mark.parametrize("everything", [False, True])
def test_instructor_tools_are_hidden_from_attendees(start_lab, browser, tmp_path, everything):
    """Kernels have no ports, not even where the runtime folder's path is too long for a socket."""
    lab = start_lab(tmp_path / ("a" * 100 if everything else "short"), more=["--all"] if everything else [])
    for name in ("Start_Here.ipynb", "Makefile"):
        (lab.root / name).write_text(json.dumps(nbformat.v4.new_notebook()))
    (lab.root / "grading").mkdir()
    page = browser.new_context(viewport={"width": 640, "height": 450}).new_page()  # as one enlarged to 200 %
    try:
        page.goto(f"http://127.0.0.1:{lab.port}/lab?reset&token={lab.token}")
        page.locator(".jp-DirListing-item", has_text="Start_Here").wait_for(timeout=60_000)
        names = page.locator(".jp-DirListing-itemName").all_inner_texts()
        menus = page.locator(".lm-MenuBar-itemLabel").all_inner_texts()
        saving = page.request.get(
            f"http://127.0.0.1:{lab.port}/lab/api/settings/@jupyterlab/docmanager-extension:plugin?token={lab.token}"
        ).json()["schema"]["properties"]["autosaveInterval"]["default"]
        page.screenshot(path=SCREENSHOTS / f"lab-{'all' if everything else 'attendee'}.png")
        sidebar = page.locator("#jp-left-stack").bounding_box()
        cut = page.locator(".jp-DirListing-itemText").evaluate_all(
            "names => names.filter(name => name.scrollWidth > name.clientWidth).map(name => name.textContent)"
        )
    finally:
        page.context.close()
    assert ({"grading", "Makefile"} <= set(names)) == ("Nbgrader" in menus) == everything
    assert len(names) == (3 if everything else 1)
    assert saving == (120 if everything else 20)  # seconds after which a guess is safe from a reload
    assert sidebar["width"] < 640 / 4 and cut == []
    printed = [line for line in lab.log.read_text().splitlines() if line.strip()]
    assert len(printed) < (12 if everything else 6) and any(f":{lab.port}/" in line for line in printed)
    kernels_are_not_reached_over_tcp(lab)
