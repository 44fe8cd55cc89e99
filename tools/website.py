"""Website of the executed lessons: `make site` builds build/site with Sphinx, for any static host.

    tools/website.py build     build/site
    tools/website.py keep      results/lessons: what `make run SIZE=reader` has left in build/

A page shows a released lesson with the model answers' outputs: from build/ at reader size, else the committed ones,
else from build/ at any size. Cells that have changed since have no outputs.
"""

import argparse
import lzma
import os
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import lessons
from ddl.records.paths import data_dir
from ddl.text import plural

RECORDS = "results/lessons"
TEXTS = (  # of docs/
    *("cheat-sheet", "glossary", "pytorch-and-jax", "findings", "launching"),
    *("cluster", "instructors", "class-server", "wrong-answers", "measured", "gpu"),
)
ELSEWHERE = ("source_code/README.md", "containers/sites/README.md", "grading/README.md", "findings/README.md")
INDEX = """\
{opening}

These pages show the lessons with their outputs. The exercises are unanswered, as students get them. {links}

![Start_Here in JupyterLab: the cell that launched a training run, the summary of the finished run, and charts of its
training loss and held-out accuracy.](images/lesson.png)

{for_whom}

## The lessons

{rows}

{expect}

```{{toctree}}
:hidden:
:caption: Lessons

{lessons}
```

```{{toctree}}
:hidden:
:caption: Pages

{texts}
```
"""
OPEN = (
    "The course is on [GitHub](https://github.com/{name}). Run it there in [Codespaces](https://codespaces.new/{name}) "
    "or [Binder](https://mybinder.org/v2/gh/{name}/HEAD?labpath=Start_Here.ipynb)."
)
LINK = re.compile(r"""(?:\]\(|\b(?:src|href)=["'])([^)"'#\s]+)""")
TITLE = re.compile(r"^# (.*)", re.MULTILINE)
QUESTION = re.compile(r"^\*\*(.*?)\*\*$", re.MULTILINE)
NOTEBOOK = re.compile(r'(href="[^":]+)\.ipynb')
STATES = re.compile(r"^\[ *\d+:\d\d\] (queued|starting|running|training|\d+ (of \d+ )?ranks?) .*\n", re.MULTILINE)


def executed(path: Path, root: Path, size: str = "smoke"):
    """Return a lesson's execution by `make run`; None if it is outdated, smaller or incomplete."""
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
    """Return a lesson's committed execution, or None."""
    import nbformat

    record = root / RECORDS / f"{path.name}.xz"
    return nbformat.reads(lzma.decompress(record.read_bytes()).decode(), as_version=4) if record.exists() else None


def keep(root: Path) -> None:
    """Copy the executions at reader size from build/ into the course."""
    import nbformat

    for path in lessons.notebooks(root):
        if notebook := executed(path, root, "reader"):
            record = root / RECORDS / f"{path.name}.xz"
            record.parent.mkdir(parents=True, exist_ok=True)
            notebook.metadata.papermill = {key: notebook.metadata.papermill[key] for key in ("end_time", "parameters")}
            for cell in notebook.cells:
                cell.metadata.pop("papermill", None)
            record.write_bytes(lzma.compress(without_places(nbformat.writes(notebook), root).encode()))
            print(record.relative_to(root))


def without_places(text: str, root: Path) -> str:
    """Return a text without this machine's name and folders."""
    text = re.sub(rf"{re.escape(str(lessons.work_folder('', root)))}/[\w.-]+", "~/course", text)
    names = {data_dir(): "~/.cache/ddl", Path(sys.prefix): ".venv", root: "~/course", Path.home(): "~"}
    for path, name in names.items():
        text = text.replace(str(path), name)
    return text


def of_readme(root: Path) -> dict[str, str]:
    """Return parts of README.md: the opening with the commands, the intended readers, and the requirements."""
    text = re.sub(r"^\[!\[ci\].*\n+|^!\[[^\]]*\]\([^)]*\)\n+", "", (root / "README.md").read_text(), flags=re.MULTILINE)
    opening, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    named = {section.partition("\n")[0]: section.strip() for section in sections}
    opening = opening[: opening.index("This is `Start_Here`")].strip()  # what follows is about pictures and this site
    return {"opening": opening, "for_whom": named["## Is it for you?"], "expect": named["## What to expect"]}


def page(path: Path, root: Path):
    """Return a released lesson with outputs and the date of its execution."""
    import nbformat

    notebook = lessons.released(lessons.source_of(path, root), root)
    ran, note = executed(path, root, "reader") or recorded(path, root) or executed(path, root), "Not executed."
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if ran:
        outputs = {cell.id: cell.outputs for cell in ran.cells if cell.cell_type == "code"}
        for cell in code:
            cell.outputs = [_for_page(output) for output in outputs.get(cell.id, [])]
        record, changed = ran.metadata.papermill, sum(cell.id not in outputs for cell in code)
        note = f"Executed on {record.end_time[:10]} at {record.parameters['size']} size."
        note += f" {plural(changed, 'cell')} changed since." if changed else ""
    for cell in notebook.cells:  # set-up is folded up to the first section
        if cell.cell_type == "markdown" and "\n## " in f"\n{cell.source}":
            break
        if cell.cell_type == "code":
            cell.metadata.setdefault("tags", []).append("hide-input")
        elif path.stem == lessons.HOME:  # its title is the landing page's
            cell.source = TITLE.sub("# Start here", cell.source, count=1)
    notebook.cells.append(nbformat.v4.new_markdown_cell(f"*{note}*"))
    return notebook


def _for_page(output):
    """Drop the lines that say where a launch stands, as a page shows how it ended; have links lead to pages."""
    if output.output_type == "stream":
        output.text = STATES.sub("", output.text)
    elif "text/html" in output.get("data", {}):
        output.data["text/html"] = NOTEBOOK.sub(r"\1.html", output.data["text/html"])
    return output


def stage(root: Path, source: Path) -> None:
    """Put together what Sphinx builds the site from."""
    import nbformat

    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(root / "tools" / "site", source / "_static", ignore=shutil.ignore_patterns("conf.py"))
    shutil.copyfile(root / "tools" / "site" / "conf.py", source / "conf.py")
    mathjax = files("mathjax") / "static" / "mathjax" / "es5" / "tex-svg-full.js"
    shutil.copyfile(str(mathjax), source / "_static" / "mathjax.js")
    rows, pages = [], []
    for path in lessons.notebooks(root):
        notebook, place = page(path, root), path.relative_to(root)
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(without_places(nbformat.writes(notebook), root))
        _copy_linked(text, path.parent, root, source)
        title, question = TITLE.search(text), QUESTION.search(text)
        name = path.stem.replace("_", " ") if path.stem == lessons.HOME or not title else title[1]
        pages.append(f"{name} <{place.with_suffix('').as_posix()}>")
        indent = "  " if re.match(r"\d+[a-z]", path.stem) else ""  # a second notebook, below its lesson
        rows.append(f"{indent}- [{name}]({place}): {question[1] if question else ''}")
    texts = [*(f"docs/{name}.md" for name in TEXTS), *ELSEWHERE]
    for name in texts:
        text = (root / name).read_text()
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
        _copy_linked(text, (root / name).parent, root, source)
    names = [name.removesuffix(".md") for name in texts]
    repository = os.environ.get("DDL_SITE_REPOSITORY", "")  # OWNER/NAME, set by the workflow: right in a fork
    links = OPEN.format(name=repository) if repository else ""
    listed = {"rows": "\n".join(rows), "lessons": "\n".join(pages), "texts": "\n".join(names)}
    index = INDEX.format(links=links, **listed, **of_readme(root))
    (source / "index.md").write_text(index)
    _copy_linked(index, root, root, source)


def _copy_linked(text, folder, root, source):
    """Copy the course's files that a page links to or shows to the same places in the source."""
    for target in LINK.findall(text):
        file = (folder / unquote(target)).resolve()
        if file.is_file() and file.is_relative_to(root) and file.suffix not in (".ipynb", ".md"):
            copy = source / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def build(root: Path) -> int:
    """Build build/site; return Sphinx's exit status."""
    source, site = root / "build" / "site-source", root / "build" / "site"
    stage(root, source)
    shutil.rmtree(site, ignore_errors=True)
    status = subprocess.call([sys.executable, "-m", "sphinx", "--quiet", "-j", "auto", source, site])
    print(site / "index.html")
    return status


def main(arguments: list[str], root: Path = lessons.ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "keep"))
    if parser.parse_args(arguments).command == "build":
        return build(root)
    keep(root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
