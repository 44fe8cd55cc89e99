"""Photograph a lesson in JupyterLab while it trains: ``make photograph``.

A real browser opens Start_Here on a real server and runs all its cells. While the ranks of its run train, its panel is
photographed twice a second (run.gif, which plays twice as fast and shortens waits); afterward the window (lesson.png).
Folders are shown as a reader would have them. Needs Chromium.
"""

import io
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
COURSE = HERE.parent
sys.path += [str(COURSE / "tests" / "browser"), str(COURSE / "tests")]
from conftest import Lab, Tab  # noqa: E402

PAUSE_S = 0.5
LAST_S = 3.0  # how long the animation shows the end
WAIT_S = 1.0  # at most between two frames
COLORS = 48  # of a frame
RENAME = """new MutationObserver(() => {
  for (const part of document.querySelectorAll(".ddl")) {
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode());)
      for (const [folder, name] of FOLDERS)
        if (text.data.includes(folder)) text.data = text.data.replaceAll(folder, name);
  }
}).observe(document, {childList: true, subtree: true, characterData: true})"""


def frames(panel, end):
    """Photographs of a run's panel until `end` is on the page, each with how long it was shown (s)."""
    taken = []
    while True:
        over = end.count() > 0
        picture = Image.open(io.BytesIO(panel.screenshot())).convert("RGB")
        if taken and picture.tobytes() == taken[-1][0].tobytes():
            taken[-1][1] += PAUSE_S
        else:
            taken.append([picture, PAUSE_S])
        if over:
            return taken
        time.sleep(PAUSE_S)


def animate(taken, path):
    """Write an animation that stands still on its last frame for a while before it begins again."""
    width, height = (max(picture.size[side] for picture, _ in taken) for side in (0, 1))
    drawn = []
    for picture, _ in taken:
        canvas = Image.new("RGB", (width, height), "white")
        canvas.paste(picture)
        drawn.append(canvas.quantize(COLORS, dither=Image.Dither.NONE))
    times = [1000 * min(shown, WAIT_S) / 2 for _, shown in taken[:-1]] + [1000 * LAST_S]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True)


def photograph(lab, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    folders = {lab.root: "~/course", lab.runs: "~/course/runs", sys.prefix: ".venv"}
    page.add_init_script(
        RENAME.replace("FOLDERS", json.dumps([(str(folder), name) for folder, name in folders.items()]))
    )
    tab = Tab(page, lab, lab.root / "Start_Here.ipynb")
    tab.run_all()
    cell = page.locator(".jp-CodeCell", has_text="train_cifar.py").first
    cell.locator(".ddl-run").wait_for(timeout=120_000)
    cell.scroll_into_view_if_needed()
    animate(frames(cell, cell.locator(".ddl-done")), HERE / "run.gif")
    tab.wait_until_idle(300)
    cell.evaluate("cell => cell.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(1000)
    page.screenshot(path=HERE / "lesson.png")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        try:
            for name in ("notebooks", "images", "source_code"):
                shutil.copytree(COURSE / name, lab.root / name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(COURSE / "Start_Here.ipynb", lab.root)
            photograph(lab, browser)
        finally:
            browser.close()
            lab.close()


if __name__ == "__main__":
    main()
