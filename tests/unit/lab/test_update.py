"""A new release of the course, from a bare repository, and what an attendee has made of the last one."""

import nbformat
import pytest
from nbformat import v4

from course.lab import update as module
from course.lab.update import UpdateError, fresh, update
from helpers import git

NAME = "notebooks/7.Doubling.ipynb"
STUB = "raise NotImplementedError()"


def role(name, **more):
    return {"nbgrader": {"grade_id": name, "grade": False, "solution": False, "schema_version": 3} | more}


def released():
    """A lesson as it is first released."""
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Doubling", id="head"),
            v4.new_code_cell("size = 1", id="size"),
            v4.new_code_cell(STUB, id="a1", metadata=role("q01_double", solution=True)),
            v4.new_code_cell("assert double(2) == 4", id="t1", metadata=role("q01_double_test", grade=True)),
            v4.new_markdown_cell("YOUR ANSWER HERE", id="a2", metadata=role("q02_words", solution=True, grade=True)),
        ]
    )


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A published course, and an attendee's clone of it."""
    origin, author, mine = tmp_path / "origin.git", tmp_path / "author", tmp_path / "mine"
    git(tmp_path, "init", "--quiet", "--bare", str(origin))
    git(tmp_path, "clone", "--quiet", str(origin), str(author))

    class Course:
        root = mine
        path = mine / NAME

        def publish(self, notebook, **texts):
            (author / NAME).parent.mkdir(exist_ok=True)
            nbformat.write(notebook, author / NAME)
            for name, text in texts.items():
                path = author / f"{name}.py"
                path.write_text(text) if text is not None else path.unlink()
            git(author, "add", "--all")
            git(author, "commit", "--quiet", "--message", "release")
            git(author, "push", "--quiet", "origin", "HEAD:main")

        def edit(self, change):
            notebook = nbformat.read(self.path, as_version=4)
            change(notebook.cells)
            nbformat.write(notebook, self.path)

        def cells(self):
            return {cell.id: cell for cell in nbformat.read(self.path, as_version=4).cells}

    found = Course()
    found.publish(released(), kept="1", both="1", gone="1")
    git(tmp_path, "clone", "--quiet", str(origin), str(mine))
    monkeypatch.chdir(mine)
    return found


def work(cells):
    cells[2].source, cells[2].outputs = "def double(x):\n    return 2 * x", [v4.new_output("stream", text="hello\n")]
    cells[2].execution_count, cells[4].source = 3, "Because."
    cells[1].source = "size = 2"
    cells.insert(3, v4.new_code_cell("my_own = 1", id="mine"))


def second(change=lambda cells: None):
    notebook = released()
    notebook.cells[0].source = "# Doubling, again"
    notebook.cells.append(v4.new_markdown_cell("A new section", id="new"))
    notebook.cells[3].source = "assert double(3) == 6"
    change(notebook.cells)
    return notebook


def test_update_keeps_answers_and_own_cells(course):
    course.edit(work)
    (course.root / "own.py").write_text("mine")
    before = course.path.read_bytes()
    course.publish(second(), kept="2", both="1", gone=None)
    said = update(course.root)
    cells = course.cells()
    assert list(cells) == ["head", "size", "a1", "mine", "t1", "a2", "new"]
    assert cells["head"].source == "# Doubling, again" and cells["t1"].source == "assert double(3) == 6"
    assert cells["a1"].source.endswith("return 2 * x") and cells["a1"].outputs[0].text == "hello\n"
    assert (cells["a2"].source, cells["size"].source) == ("Because.", "size = 2")
    assert (course.root / "kept.py").read_text() == "2" and not (course.root / "gone.py").exists()
    assert (course.root / "own.py").read_text() == "mine"
    (backup,) = (course.root / "backup").iterdir()
    assert (backup / NAME).read_bytes() == before and str(backup.name) in said
    assert said.splitlines()[0].endswith("1 notebook with your work merged.") and len(said.splitlines()) == 2
    assert git(course.root, "rev-parse", "HEAD") == git(course.root, "rev-parse", "origin/main")
    assert update(course.root) == "The course is up to date."


@pytest.mark.parametrize("how", ["dropped", "replaced"])
def test_update_without_cell_ids_duplicates_no_cell(course, how):
    course.edit(work)
    notebook = nbformat.read(course.path, as_version=4)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"new-{number}"
        if how == "dropped":
            del cell["id"]
            notebook.nbformat_minor = 4
    nbformat.write(notebook, course.path)
    course.publish(second())
    update(course.root)
    cells = list(course.cells().values())
    own = ["# Doubling, again", "size = 2", "def double(x):\n    return 2 * x", "my_own = 1"]
    assert [cell.source for cell in cells] == [*own, "assert double(3) == 6", "Because.", "A new section"]


def test_conflicts_are_reported_and_nothing_is_lost(course):
    course.edit(work)
    (course.root / "both.py").write_text("mine")
    (course.root / "gone.py").write_text("mine")

    def change(cells):
        cells[1].source = "size = 9"
        cells[2].source = f"# differently\n{STUB}"
        cells[:] = [cell for cell in cells if cell.id != "a2"]

    course.publish(second(change), kept="1", both="2", gone=None)
    said = update(course.root).splitlines()[2:]
    assert sorted(said) == sorted([
        f"{NAME}: “size = 2” was changed by you and by the release: yours is below the new one",
        f"{NAME}: q01_double has changed: check your answer",
        f"{NAME}: q02_words is not in the new release: yours is kept as your own cell",
        "both.py was changed by you and by the release: yours is in the backup",
        "gone.py is not in the new release: yours stays",
    ])  # fmt: skip
    cells = course.cells()
    sources = [cell.source for cell in cells.values()]
    assert sources[1:3] == ["size = 9", "size = 2"] and "Because." in sources
    assert cells["a1"].source.endswith("return 2 * x")
    (backup,) = (course.root / "backup").iterdir()
    assert (backup / "both.py").read_text() == "mine" and (course.root / "both.py").read_text() == "2"
    assert (course.root / "gone.py").read_text() == "mine"


def test_local_commits_stay_on_a_branch_of_their_own(course):
    course.edit(work)
    git(course.root, "commit", "--quiet", "--all", "--message", "my answers")
    own = git(course.root, "rev-parse", "HEAD")
    course.publish(second())
    said = update(course.root)
    (branch,) = git(course.root, "branch", "--list", "before-*", "--format=%(refname:short)").split()
    assert git(course.root, "rev-parse", branch) == own and branch in said
    assert course.cells()["a1"].source.endswith("return 2 * x") and "new" in course.cells()


@pytest.mark.parametrize("step", ["checkout", "reset"])
def test_interrupted_update_can_be_repeated(course, monkeypatch, step):
    course.edit(work)
    course.publish(second(), kept="2")
    done = module._git

    def interrupted(root, *arguments, **more):
        if arguments[0] == step:
            raise KeyboardInterrupt
        return done(root, *arguments, **more)

    monkeypatch.setattr(module, "_git", interrupted)
    with pytest.raises(KeyboardInterrupt):
        update(course.root)
    monkeypatch.setattr(module, "_git", done)
    assert "is now the newest release" in update(course.root)
    assert list(course.cells()) == ["head", "size", "a1", "mine", "t1", "a2", "new"]
    assert course.cells()["a1"].source.endswith("return 2 * x") and (course.root / "kept.py").read_text() == "2"


def test_offline_update_changes_nothing(course, tmp_path):
    course.edit(work)
    before = course.path.read_bytes()
    (tmp_path / "origin.git").rename(tmp_path / "away.git")
    with pytest.raises(UpdateError, match="cannot be fetched"):
        update(course.root)
    assert course.path.read_bytes() == before and not (course.root / "backup").exists()


def test_fresh_copy_replaces_nothing(course):
    course.edit(work)
    git(course.root, "commit", "--quiet", "--all", "--message", "my answers")
    before = course.path.read_bytes()
    copied = fresh("7", course.root)
    assert copied.name == "7.Doubling.fresh.ipynb"
    assert nbformat.read(copied, as_version=4) == released()
    assert course.path.read_bytes() == before
    copied.write_text("mine by now")
    with pytest.raises(UpdateError, match="already exists"):
        fresh("7", course.root)
    assert copied.read_text() == "mine by now"


@pytest.mark.parametrize("command", [update, lambda root: fresh("7", root)])
def test_clone_of_another_user_gets_the_remedy_of_git(course, monkeypatch, command):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UpdateError, match="safe.directory"):
        command(course.root)
