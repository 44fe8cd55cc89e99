"""Show the executed lessons: as a web site for any static host, and printed.

    tools/gallery.py site [--size smoke|reader]             build/site: what `make site` runs
    tools/gallery.py pdf [LESSON] [--size smoke|reader]     build/<lesson>.pdf: what `make pdf` runs
    tools/gallery.py keep                                   results/lessons: what build/ has at reader size

A page shows the execution of a lesson in build/, or the one that is kept with the course; a cell that has changed since
has no output. A lesson of which there is neither is executed. What can fail besides is done before that, as executing
takes long. A page has the outputs that the model answers gave, and not the answers. LESSON is a lesson's name or its
beginning, or the path of a notebook: that is printed as it was saved. Pages load nothing from a network, and their
links are relative.
"""

import argparse
import base64
import lzma
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import lessons
from ddl.records.paths import data_dir
from ddl.text import plural

TITLE = "Distributed deep learning, by doing it"
TEMPLATE = Path(__file__).with_suffix(".html.j2")
TEXTS = ("docs/cheat-sheet.md", "docs/glossary.md")  # what the site has beside the lessons
RECORDS = "results/lessons"
INDEX = """\
# {title}

Each lesson asks a question, launches real trainings on several workers, and answers it from their records. These
are the lessons as they ran; the exercises are open, as attendees get them.

<div class="cards">
{cards}
</div>
"""
CARD = """\
<article>
{picture}
<h2><a href="{page}">{title}</a></h2>
<p><strong>{question}</strong></p>
<p class="note">{note}</p>
</article>"""
CONTENTS = """\
<nav class="contents" aria-label="Contents"><details open><summary>Contents</summary><ul>
{}
</ul></details></nav>"""
HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)<a class="anchor-link"', re.DOTALL)
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
        return found[1] if found and self.path.stem != lessons.HOME else self.path.stem.replace("_", " ")


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


def recorded(path: Path, root: Path):
    """The execution of a lesson that is kept with the course; None where there is none."""
    import nbformat

    record = root / RECORDS / f"{path.name}.xz"
    return nbformat.reads(lzma.decompress(record.read_bytes()).decode(), as_version=4) if record.exists() else None


def keep(paths: list[Path], root: Path) -> int:
    """Keep the executions at reader size that are in build/ with the course."""
    import nbformat

    for path in paths:
        if notebook := executed(path, root, "reader"):
            record = root / RECORDS / f"{path.name}.xz"
            record.parent.mkdir(parents=True, exist_ok=True)
            notebook.metadata.papermill = {key: notebook.metadata.papermill[key] for key in ("end_time", "parameters")}
            for cell in notebook.cells:
                cell.metadata.pop("papermill", None)
            record.write_bytes(lzma.compress(without_places(nbformat.writes(notebook), root).encode()))
            print(record.relative_to(root))
    return 0


def lesson(path: Path, root: Path) -> Lesson:
    """A lesson as people are handed it, with the outputs that its model answers gave."""
    notebook = lessons.released(lessons.source_of(path, root), root)
    ran, note = executed(path, root, "reader") or recorded(path, root) or executed(path, root), "not executed"
    if ran:
        outputs = {cell.id: cell.outputs for cell in ran.cells if cell.cell_type == "code"}
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell in code:
            cell.outputs = outputs.get(cell.id, [])
        record, changed = ran.metadata.papermill, sum(cell.id not in outputs for cell in code)
        note = f"executed on {record.end_time[:10]} at {record.parameters['size']} size"
        note += f"; {plural(changed, 'cell')} changed since" if changed else ""
    return Lesson(notebook, path.relative_to(root), note)


def page_of(text: str, path: Path) -> Lesson:
    """A page of Markdown."""
    import nbformat

    return Lesson(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)]), path, "")


def html(shown: Lesson, around: Sequence[tuple[str, str, str]] = ()) -> str:
    """A page with its contents and links to those `around` it: (prev or next, its path, its title)."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(raw_template=TEMPLATE.read_text(), exclude_input_prompt=True, exclude_output_prompt=True)
    resources = {"up": "../" * (len(shown.path.parts) - 1), "course": TITLE, "note": shown.note}
    resources |= {"metadata": {"name": shown.title}, "around": around}
    text, _ = exporter.from_notebook_node(shown.notebook, resources)
    items = [f'<li class="h{level}"><a href="#{name}">{title}</a></li>' for level, name, title in HEADING.findall(text)]
    return text.replace("<!-- contents -->", CONTENTS.format("\n".join(items)) if items else "", 1)


def write(shown: Lesson, site: Path, root: Path, around: Sequence[tuple[str, str, str]] = ()) -> None:
    """Write a page, and whatever of the course it links to, at the same place in the site."""

    def relative(match):
        target = unquote(match[2])
        file = (root / shown.path.parent / target).resolve()
        if file.suffix == ".ipynb" or file in [root / text for text in TEXTS]:
            return f'{match[1]}="{match[2].rpartition(".")[0]}.html'
        if file.is_file():
            copy(file, site / file.relative_to(root))
        return match[0]

    page = site / shown.page
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(LINK.sub(relative, without_places(html(shown, around), root)))
    assets = site / "assets"
    copy(Path(str(files("mathjax") / "static" / "mathjax" / "es5" / "tex-svg-full.js")), assets / "mathjax.js")
    copy(Path(__file__).with_suffix(".css"), assets / "style.css")
    copy(Path(__file__).with_suffix(".js"), assets / "site.js")
    templates = Path(sys.prefix, "share", "jupyter", "nbconvert", "templates")
    copy(templates / "lab" / "static" / "theme-dark.css", assets / "dark.css")


def copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def without_places(text: str, root: Path) -> str:
    """A page that does not tell in which folders of which machine it was made."""
    text = re.sub(rf"{re.escape(str(lessons.work_folder('', root)))}/[\w.-]+", "~/course", text)
    names = {data_dir(): "~/.cache/ddl", Path(sys.prefix): ".venv", root: "~/course", Path.home(): "~"}
    for path, name in names.items():
        text = text.replace(str(path), name)
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
    texts = [page_of((root / path).read_text(), Path(path)) for path in TEXTS if (root / path).exists()]
    links = [(each.page.as_posix(), each.title) for each in shown]
    always = [("help", each.page.as_posix(), each.title) for each in texts]
    for number, each in enumerate(shown):
        around = [("prev", *links[number - 1])] if number else []
        write(each, site, root, [*around, *always, *(("next", *link) for link in links[number + 1 : number + 2])])
    cards = "\n".join(card(each, site) for each in shown)
    for each in (*texts, page_of(INDEX.format(title=TITLE, cards=cards), Path("index.md"))):
        write(each, site, root, always)
    return shown


def execute(paths: list[Path], root: Path, size: str) -> int:
    """Execute the lessons of which there is no execution."""
    missing = [path.stem for path in paths if not (executed(path, root, size) or recorded(path, root))]
    return max((lessons.run(root, name, size) for name in missing), default=0)


def print_pages(pages: dict[Path, Path], chromium: str) -> None:
    """Print pages with the browser, {page: where to}."""
    from playwright.sync_api import sync_playwright

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
    site = root / "build" / "site"
    build(root, site)
    status = execute(lessons.notebooks(root), root, size)
    build(root, site)
    print(site / "index.html")
    return status


def make_pdf(root: Path, name: str, size: str) -> int:
    import nbformat

    status, chromium = 0, shutil.which("chromium") or shutil.which("google-chrome")
    if name.endswith(".ipynb"):
        path = Path(name).resolve()
        target = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        shown = [Lesson(nbformat.read(path, as_version=4), target, "")]
    else:
        paths = lessons.begins_so(name, lessons.notebooks(root))
        if not paths:
            sys.exit(f"gallery: no lesson begins with {name!r}")
        if not chromium:
            sys.exit("gallery: printing needs Chromium (Debian, Ubuntu: apt install chromium)")
        status = execute(paths, root, size)
        shown = [lesson(path, root) for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        for each in shown:
            write(each, Path(folder), root)
        (root / "build").mkdir(exist_ok=True)
        print_pages({Path(folder, each.page): root / "build" / f"{each.path.stem}.pdf" for each in shown}, chromium)
    return status


def main(arguments: list[str], root: Path = lessons.ROOT) -> int:
    parser = argparse.ArgumentParser(description="Show the executed lessons.")
    commands = parser.add_subparsers(dest="command", required=True)
    site, pdf = commands.add_parser("site"), commands.add_parser("pdf")
    commands.add_parser("keep")
    pdf.add_argument("lesson", nargs="?", default="")
    for command in (site, pdf):
        command.add_argument("--size", choices=("smoke", "reader"), default="smoke")
    given = parser.parse_args(arguments)
    if given.command == "keep":
        return keep(lessons.notebooks(root), root)
    return make_site(root, given.size) if given.command == "site" else make_pdf(root, given.lesson, given.size)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
