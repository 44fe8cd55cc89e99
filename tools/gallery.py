"""Show the executed lessons: as a web site for any static host, and printed.

    tools/gallery.py site [--size smoke|reader]             build/site: what `make site` runs
    tools/gallery.py pdf [LESSON] [--size smoke|reader]     build/<lesson>.pdf: what `make pdf` runs

A lesson is executed where build/ has no execution of it, or one that is older than its source; one at reader size
is as good as one at smoke size. Its page has the outputs that the model answers gave, and not the answers. LESSON is
a lesson's name or its beginning, or the path of a notebook: that is printed as it was saved. Pages load nothing from a
network, and their links are relative.
"""

import argparse
import base64
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import lessons
from ddl.records.paths import data_dir

TITLE = "Distributed deep learning, by doing it"
LESSON = """\
{%- extends "lab/index.html.j2" -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}
<script>window.MathJax = {
  tex: {inlineMath: [["$", "$"], ["\\\\(", "\\\\)"]], processEscapes: true, processEnvironments: true},
  options: {enableMenu: false}
};</script>
<script defer src="{{ resources.up }}assets/mathjax.js"></script>
<link rel="stylesheet" href="{{ resources.up }}assets/style.css">
{%- endblock -%}
{%- block body_header -%}
{{ super() }}
<nav class="course"><a href="{{ resources.up }}index.html">{{ resources.course }}</a>
<span>{{ resources.note }}</span></nav>
{%- endblock -%}
"""
INDEX = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="assets/style.css">
</head>
<body class="gallery">
<h1>{title}</h1>
<p>Each lesson asks a question, launches real trainings on several workers, and answers it from their records. These
are the lessons as they ran; the exercises are open, as attendees get them.</p>
<main>
{cards}
</main>
</body>
</html>
"""
CARD = """\
<article>
{picture}
<h2><a href="{page}">{title}</a></h2>
<p><strong>{question}</strong></p>
<p class="note">{note}</p>
</article>"""
LINK = re.compile(r'\b(href|src)="(?!#|data:|[a-z]+://|mailto:)([^"#]+)')
IMAGE = re.compile(r"<img\b[^>]*>")
DATA = re.compile(r'src="data:image/(png|svg)[^,"]*;base64,([^"]+)"')
ALT = re.compile(r'alt="([^"]*)"')


@dataclass(frozen=True)
class Lesson:
    """What a page shows: a lesson's notebook, its path in the course, and what is said of the execution."""

    notebook: object
    path: Path
    note: str

    @property
    def page(self) -> Path:
        return self.path.with_suffix(".html")

    @property
    def text(self) -> str:
        return "\n".join(cell.source for cell in self.notebook.cells if cell.cell_type == "markdown")

    @property
    def title(self) -> str:
        found = re.search(r"^# (.*)", self.text, re.MULTILINE)
        return found[1] if found and found[1] != TITLE else self.path.stem.replace("_", " ")


def executed(path: Path, root: Path, size: str = "smoke"):
    """The notebook that `make run` has left of a lesson; None where it is older, smaller or did not reach its end."""
    import nbformat

    result, source = root / "build" / path.name, lessons.source_of(path, root)
    if not result.exists() or result.stat().st_mtime < source.stat().st_mtime:
        return None
    notebook = nbformat.read(result, as_version=4)
    record = notebook.metadata.get("papermill", {})
    if record.get("exception") or not record.get("end_time"):
        return None
    return notebook if record["parameters"].get("size") in (size, "reader") else None


def lesson(path: Path, root: Path) -> Lesson:
    """A lesson as people are handed it, with the outputs that its model answers gave."""
    notebook = lessons.release(lessons.master(lessons.source_of(path, root).read_text()))
    ran, note = executed(path, root), "not executed"
    if ran:
        outputs = {cell.id: cell.outputs for cell in ran.cells if cell.cell_type == "code"}
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = outputs.get(cell.id, [])
        record = ran.metadata.papermill
        note = f"executed on {record.end_time[:10]} at {record.parameters['size']} size"
    return Lesson(notebook, path.relative_to(root), note)


def html(shown: Lesson) -> str:
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(raw_template=LESSON, exclude_input_prompt=True, exclude_output_prompt=True)
    resources = {"up": "../" * (len(shown.path.parts) - 1), "course": TITLE, "note": shown.note}
    resources["metadata"] = {"name": shown.title}
    text, _ = exporter.from_notebook_node(shown.notebook, resources)
    return text


def write(shown: Lesson, site: Path, root: Path) -> None:
    """Write a lesson's page, and whatever of the course it links to, at the same place in the site."""

    def relative(match):
        target = unquote(match[2])
        file = (root / shown.path.parent / target).resolve()
        if file.suffix == ".ipynb":
            return f'{match[1]}="{match[2].removesuffix(".ipynb")}.html'
        if file.is_file():
            copy(file, site / file.relative_to(root))
        return match[0]

    page = site / shown.page
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(LINK.sub(relative, without_places(html(shown), root)))
    assets = site / "assets"
    copy(Path(str(files("mathjax") / "static" / "mathjax" / "es5" / "tex-svg-full.js")), assets / "mathjax.js")
    copy(Path(__file__).with_name("gallery.css"), assets / "style.css")


def copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def without_places(text: str, root: Path) -> str:
    """A page that does not tell in which folders of which machine it was made."""
    places = {data_dir(): "~/.cache/ddl", Path(sys.prefix): ".venv", root: "~/course", Path.home(): "~"}
    for place, name in places.items():
        text = text.replace(str(place), name)
    return text


def figure(shown: Lesson) -> tuple[str, str, bytes]:
    """The first figure of a lesson's outputs: its text alternative, the kind of image, and the image."""
    for cell in shown.notebook.cells:
        for output in cell.get("outputs", ()):
            for tag in IMAGE.findall(output.get("data", {}).get("text/html", "")):
                if data := DATA.search(tag):
                    return ALT.search(tag)[1], data[1], base64.b64decode(data[2])
    return "", "", b""


def card(shown: Lesson, site: Path) -> str:
    """A lesson's part of the index, with its first figure, or else the first picture of its text."""
    alt, kind, data = figure(shown)
    picture = ""
    if data:
        picture = f"assets/{shown.path.stem}.{kind}"
        (site / picture).write_bytes(data)
    elif found := re.search(r"!\[([^\]]*)\]\(([^)]+)\)", shown.text):
        alt, picture = escape(" ".join(found[1].split())), os.path.normpath(shown.path.parent / found[2])
    return CARD.format(
        page=shown.page.as_posix(),
        picture=f'<a href="{shown.page.as_posix()}"><img src="{picture}" alt="{alt}"></a>' if picture else "",
        title=escape(shown.title),
        question=escape(re.search(r"^\*\*(.*?)\*\*$", shown.text, re.MULTILINE)[1]),
        note=shown.note,
    )


def build(root: Path, site: Path) -> list[Lesson]:
    """Make the site of what has been executed; return its lessons."""
    shutil.rmtree(site, ignore_errors=True)
    shown = [lesson(path, root) for path in lessons.notebooks(root)]
    for each in shown:
        write(each, site, root)
    cards = "\n".join(card(each, site) for each in shown)
    (site / "index.html").write_text(INDEX.format(title=TITLE, cards=cards))
    return shown


def execute(paths: list[Path], root: Path, size: str) -> int:
    """Execute the lessons of which there is no execution."""
    missing = [path.stem for path in paths if not executed(path, root, size)]
    return max((lessons.run(root, name, size) for name in missing), default=0)


def print_pages(pages: dict[Path, Path]) -> None:
    """Print pages with the browser, {page: where to}."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("gallery: printing needs Chromium (Debian, Ubuntu: apt install chromium)")
    root_user = ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium cannot start without
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=root_user)
        tab = browser.new_page()
        for page, target in pages.items():
            tab.goto(page.as_uri())
            tab.evaluate("window.MathJax && MathJax.startup.promise")
            tab.pdf(path=target, format="A4", print_background=True, outline=True, tagged=True)
            print(target)
        browser.close()


def make_site(root: Path, size: str) -> int:
    status = execute(lessons.notebooks(root), root, size)
    site = root / "build" / "site"
    build(root, site)
    print(site / "index.html")
    return status


def make_pdf(root: Path, name: str, size: str) -> int:
    import nbformat

    status = 0
    if name.endswith(".ipynb"):
        path = Path(name).resolve()
        place = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        shown = [Lesson(nbformat.read(path, as_version=4), place, "")]
    else:
        paths = [path for path in lessons.notebooks(root) if path.stem.startswith(name)]
        if not paths:
            sys.exit(f"gallery: no lesson begins with {name!r}")
        status = execute(paths, root, size)
        shown = [lesson(path, root) for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        for each in shown:
            write(each, Path(folder), root)
        (root / "build").mkdir(exist_ok=True)
        print_pages({Path(folder, each.page): root / "build" / f"{each.path.stem}.pdf" for each in shown})
    return status


def main(arguments: list[str], root: Path = lessons.ROOT) -> int:
    parser = argparse.ArgumentParser(description="Show the executed lessons.")
    commands = parser.add_subparsers(dest="command", required=True)
    site, pdf = commands.add_parser("site"), commands.add_parser("pdf")
    pdf.add_argument("lesson", nargs="?", default="")
    for command in (site, pdf):
        command.add_argument("--size", choices=("smoke", "reader"), default="smoke")
    given = parser.parse_args(arguments)
    return make_site(root, given.size) if given.command == "site" else make_pdf(root, given.lesson, given.size)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
