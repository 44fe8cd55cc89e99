"""Taking in what a class handed in: names, archives, and what people do to notebooks."""

import base64
import errno
import gc
import io
import json
import os
import re
import resource
import shutil
import stat
import zipfile

import nbformat
import pytest

import lessons
from marking import __main__ as commands
from marking import answers, autograde, sandbox, students
from marking.collect import collect as take_in
from marking.course import Course, MarkingError
from marking.handins import FILE_BYTES
from marking.students import Student

ANN, BOB, CYD = (Student("ann", "Ann", "Ames"), Student("ann_b", "Bob", "De Groot"), Student("123", "Cýd", "Ames"))


@pytest.fixture
def taken(tmp_path, tiny, hand_in, empty_gradebook):
    """Return a function that collects from the folder of hand-ins, or another place."""
    course = Course(tmp_path / "course")
    path = course.notebook("release", tiny.name)
    path.parent.mkdir(parents=True)
    nbformat.write(tiny.released, path)
    shutil.copy(empty_gradebook, course.folder / "gradebook.db")
    students.enrol(course, [ANN, BOB, CYD])

    def collect(where=None):
        return take_in(course, tiny.name, where or hand_in.folder)

    collect.course = course
    collect.notes = lambda student: " ".join(course.notes(tiny.name, student).collected)
    collect.notebook = lambda student: nbformat.read(course.notebook("submitted", tiny.name, student), as_version=4)
    return collect


def archive(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            if not isinstance(data, bytes):
                data = nbformat.writes(data).encode()
            file.writestr(name, data)
    return content.getvalue()


# ---------------------------------------------------------------- whose is it?


@pytest.mark.parametrize(
    "name, owner",
    [
        ("ann.ipynb", "ann"),
        ("ann_final version.ipynb", "ann"),
        ("ann_b.ipynb", "ann_b"),
        ("ann_b_2.ipynb", "ann_b"),
        ("ANN.ipynb", "ann"),
        ("123_x.ipynb", "123"),
        ("ann/deep/in/here/x.ipynb", "ann"),
        ("Ames Ann_12345_assignsubmission_file_/x.ipynb", "ann"),
        ("Ann Ames_12345_assignsubmission_file_x.ipynb", "ann"),
        ("de groot Bob_123_assignsubmission_file_/1.Tiny-Lesson.ipynb", "ann_b"),
        ("Ames, Cy\u0301d_7_assignsubmission_file_/x.ipynb", "123"),
    ],
)
def test_names_that_learning_platforms_give(taken, hand_in, tiny, name, owner):
    hand_in(name, tiny.right())
    found, strays = taken()
    assert (found, strays) == ([owner], [])
    assert taken.notes(owner) == ""
    (kept,) = (taken.course.folder / "collected" / owner / tiny.name).rglob("*.ipynb")
    assert kept.read_bytes() == (hand_in.folder / name).read_bytes()


def test_files_that_match_nobody_are_named_and_the_others_taken_in(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.right())
    hand_in("anne.ipynb", tiny.right())
    hand_in("Dan Ames_1_assignsubmission_file_/x.ipynb", tiny.right())
    found, strays = taken()
    assert found == ["ann"]
    assert {stray.name: stray.reason for stray in strays} == {
        "anne.ipynb": "no student has that id or name: is it ann?",
        "Dan Ames_1_assignsubmission_file_/x.ipynb": "no student has that id or name",
    }


def test_two_people_of_one_name_are_told_apart_by_a_person(taken, hand_in, tiny):
    students.enrol(taken.course, [Student("ann2", "Ann", "Ames")])
    hand_in("Ann Ames_1_assignsubmission_file_/x.ipynb", tiny.right())
    found, (stray,) = taken()
    assert found == [] and "ann and ann2" in stray.reason


def test_the_downloads_own_folder_is_no_students(taken, hand_in, tiny):
    hand_in("Course-Lesson 1-42/ann/x.ipynb", tiny.right())
    assert taken() == (["ann"], [])


def test_a_zip_archive_of_everything_is_as_good_as_a_folder(taken, hand_in, tiny, tmp_path):
    files = {
        "all/ann/x.ipynb": tiny.right(),
        "all/ann_b.zip": archive({"in/y.ipynb": tiny.right()}),
        "__MACOSX/all/._x": b"clutter",
    }
    (tmp_path / "class.zip").write_bytes(archive(files))
    assert taken(tmp_path / "class.zip") == (["ann", "ann_b"], [])
    assert not taken.notes("ann") + taken.notes("ann_b")
    assert tiny.answer(taken.notebook("ann_b"), "q02_table").source.endswith("[1, 4, 9]\n")


def test_an_earlier_hand_in_is_replaced_and_those_of_others_stay(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.untouched())
    hand_in("ann_b.ipynb", tiny.right())
    taken()
    (hand_in.folder / "ann_b.ipynb").unlink()
    hand_in("ann.ipynb", tiny.right())
    taken()
    assert taken.course.handed_in(tiny.name) == ["ann", "ann_b"]
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


def test_a_late_hand_in_from_another_folder_goes_back_by_the_platforms_name(taken, hand_in, tiny, tmp_path):
    name = "Ann Ames_1_assignsubmission_file_"
    hand_in(f"{name}/x.ipynb", tiny.untouched())
    taken()
    late = tmp_path / "late"
    late.mkdir()
    nbformat.write(tiny.right(), late / "ann.ipynb")
    taken(late)
    assert taken.course.notes(tiny.name, "ann").came_as == name


def test_the_time_of_a_hand_in_is_that_of_its_latest_file_or_the_exchanges(taken, hand_in, tiny):
    for name, at in (("ann/x.ipynb", 1e9), ("ann/y.txt", 1e9 + 60)):
        os.utime(hand_in(name, tiny.right() if name.endswith("b") else b""), (at, at))
    stamp = taken.course.step("submitted", tiny.name, "ann") / "timestamp.txt"
    hand_in("ann/timestamp.txt", b"1999-01-01 00:00:00 UTC")  # an attendee's own is not believed
    os.utime(hand_in.folder / "ann" / "timestamp.txt", (1e9, 1e9))
    taken()
    assert stamp.read_text() == "2001-09-09 01:47:40 UTC\n"
    os.utime(hand_in.folder / "ann" / "x.ipynb")
    taken()  # the same answers, downloaded again
    assert stamp.read_text() == "2001-09-09 01:47:40 UTC\n"
    hand_in("ann/x.ipynb", tiny.untouched())
    take_in(taken.course, tiny.name, hand_in.folder, from_exchange=True)
    assert stamp.read_text() == "1999-01-01 00:00:00 UTC\n"


def test_what_somebody_asks_to_be_looked_at_again_stands_in_the_table(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.right())
    taken()
    (hand_in.folder / "ann.ipynb").unlink()
    hand_in("ann/Regrade.txt", b"q01: the mean of\nnothing \x1b[2J is 0")
    assert taken() == (["ann"], []) and taken.notes("ann") == ""
    assert list(taken.course.folder.glob("collected/ann/**/*.ipynb"))
    with taken.course.gradebook() as gradebook:
        gradebook.add_assignment(tiny.name)
    (reason,) = autograde.rows(taken.course, tiny.name, only="ann")[0].reasons
    assert reason.endswith("q01: the mean of nothing ?[2J is 0")
    taken.course.request(tiny.name, "ann").unlink()
    (row,) = autograde.rows(taken.course, tiny.name, only="ann")
    assert not row.reasons and commands._unmarked(row) == "not marked yet"


def test_a_table_of_several_lessons_names_them_and_counts_each_student_once(capsys):
    rows = [autograde.Row(person, None, None, 8.0, 0, [], handed_in=person is ANN) for person in (ANN, BOB, CYD)]
    commands._summary({"1.First": rows, "2.Second": rows})
    said = capsys.readouterr().out
    assert "3 students in 2 lessons, 0 marked" in said
    assert re.search(r"^ann +2.Second +– +not marked yet$", said, re.M) and said.count("nothing handed in") == 4


def test_a_missing_sandbox_is_said_before_marking_and_nothing_is_marked_without_one(
    taken, hand_in, tiny, capsys, monkeypatch
):
    def find():
        raise sandbox.SandboxMissing("install bubblewrap")

    def command(name, *more):
        return commands.main(["--course", str(taken.course.folder), name, *more]), capsys.readouterr().err

    monkeypatch.setattr(sandbox, "find", find)
    hand_in("ann.ipynb", tiny.right())
    collected, said = command("collect", "1", "--from", str(hand_in.folder))
    assert collected == 0 and "install bubblewrap" in said
    assert command("autograde", "1") == (2, "autograde: install bubblewrap\n")
    failed, said = command("autograde", "7")
    assert failed == 2 and "There are: 1.Tiny-Lesson" in said
    with taken.course.alone():
        failed, said = command("autograde", "1")
    assert failed == 2 and "another grading command is at work" in said


# ---------------------------------------------------------------- hostile files


def test_an_archive_that_leads_out_of_itself_is_refused(taken, hand_in, tiny):
    hand_in(
        "ann.zip",
        archive(
            {
                "../../../gradebook.db": b"x",
                "/etc/evil.ipynb": b"x",
                "..\\..\\evil.ipynb": b"x",
                "x.ipynb": tiny.right(),
            }
        ),
    )
    before = (taken.course.folder / "gradebook.db").read_bytes()
    assert taken() == (["ann"], [])
    assert taken.notes("ann").count("leads out of its archive") == 1  # both are evil.ipynb
    assert (taken.course.folder / "gradebook.db").read_bytes() == before
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


def test_the_whole_download_may_lead_out_of_itself_too(taken, tiny, tmp_path):
    files = {
        "../ann/x.ipynb": tiny.right(),
        "/ann_b/x.ipynb": tiny.right(),
        "ok/y.txt": b"",
        "123/x.ipynb": tiny.right(),
    }
    (tmp_path / "class.zip").write_bytes(archive(files))
    found, strays = taken(tmp_path / "class.zip")
    assert found == ["123"] and len(strays) == 3
    assert not list(tmp_path.rglob("ann*/x.ipynb"))


def test_links_are_not_followed(taken, hand_in, tiny, tmp_path):
    (hand_in.folder / "ann").mkdir()
    os.symlink(taken.course.folder / "gradebook.db", hand_in.folder / "ann" / "x.ipynb")
    (tmp_path / "others").mkdir()
    nbformat.write(tiny.right(), tmp_path / "others" / "y.ipynb")
    os.symlink(tmp_path / "others", hand_in.folder / "ann_b")
    entry = zipfile.ZipInfo("x.ipynb")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(hand_in.folder / "123.zip", "w") as file:
        file.writestr(entry, "../gradebook.db")
    found, strays = taken()
    assert found == ["123", "ann", "ann_b"] and not strays
    for student in found:
        assert "is a symbolic link, which is not followed" in taken.notes(student)
    assert not [path for path in taken.course.folder.rglob("*") if path.is_symlink()]
    assert taken.notebook("ann") == tiny.released


def test_pipes_and_huge_files_are_not_read(taken, hand_in, tiny):
    (hand_in.folder / "ann").mkdir()
    os.mkfifo(hand_in.folder / "ann" / "x.ipynb")
    with open(hand_in("ann_b/x.ipynb", b""), "wb") as file:
        file.truncate(200 * 2**20)
    hand_in("123/x.ipynb", tiny.right())
    with open(hand_in("123/film.mp4", b""), "wb") as file:
        file.truncate(200 * 2**20)
    taken()
    assert "is not a regular file" in taken.notes("ann")
    assert "has 200 MiB; up to 20 are looked at" in taken.notes("ann_b")
    assert taken.notebook("ann_b") == tiny.released
    assert "film.mp4 has 200 MiB" in taken.notes("123")
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("123"), "q02_table").source
    kept = sum(path.stat().st_size for path in taken.course.folder.glob("collected/**/*.*"))
    assert kept < 2**20


def test_bombs_do_not_go_off(taken, hand_in):
    zeros = archive({f"{n}.ipynb": bytes(FILE_BYTES) for n in range(6)})
    hand_in("ann.zip", zeros)
    hand_in("ann_b.zip", archive({f"{n}.zip": zeros for n in range(2)}))
    hand_in("123.zip", archive({"x.ipynb": bytes(FILE_BYTES + 1)}))
    taken()
    assert "is beyond the 100 MiB of one hand-in" in taken.notes("ann")
    assert "is beyond the 100 MiB of one hand-in" in taken.notes("ann_b")
    assert "has 20 MiB" in taken.notes("123")


@pytest.mark.parametrize(
    "content, reason",
    [(b"PK\x03\x04 broken", "is not a zip archive that can be read"), (b"", "is not a zip archive that can be read")],
)
def test_a_broken_archive_is_named(taken, hand_in, content, reason):
    hand_in("ann.zip", content)
    taken()
    assert reason in taken.notes("ann")
    assert "no notebook in what was handed in" in taken.notes("ann")
    assert taken.course.handed_in("1.Tiny-Lesson") == []


def test_names_too_long_for_a_file_stop_nobody(taken, hand_in, tiny):
    """A gradebook that was filled by other means, and archives."""
    with taken.course.gradebook() as gradebook:
        gradebook.add_student("x" * 300)
        gradebook.add_student("../out")
    hand_in("ann.zip", archive({f"{'n' * 300}.ipynb": tiny.right(), "a\0b.txt": b""}))
    hand_in("ann_b.ipynb", tiny.right())
    assert taken() == (["ann", "ann_b"], [])
    assert taken.notes("ann") == ""
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


@pytest.fixture
def full_disk():
    """Return a function that lets no file grow any more, and one that lets them again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=soft):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    yield limit
    limit()


def collected(taken, tiny):
    return {
        str(path.relative_to(taken.course.folder)): path.read_bytes()
        for step in ("collected", "submitted")
        for path in taken.course.folder.rglob(f"{step}/**/*")
        if path.is_file()
    }


@pytest.mark.parametrize("command", ["collect", "autograde", "grades", "feedback"])
def test_a_full_disk_is_said_and_loses_nothing(taken, hand_in, tiny, full_disk, capsys, command):
    hand_in("ann.ipynb", tiny.untouched())
    taken()
    before = collected(taken, tiny)
    hand_in("ann.ipynb", tiny.right())
    full_disk(4096)
    try:
        code = commands.main(
            [
                "--course",
                str(taken.course.folder),
                command,
                "1",
                *(["--from", str(hand_in.folder)] if command == "collect" else []),
            ]
        )
    finally:
        full_disk()
    said = capsys.readouterr().err
    assert code == 2 and "File too large" in said and str(taken.course.folder) in said, said
    assert collected(taken, tiny) == before
    taken()
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


def test_what_nbgrader_says_is_kept_when_an_earlier_application_is_collected(taken):
    earlier, app = taken.course.nbgrader(), taken.course.nbgrader()
    with taken.course.log("feedback", app) as path:
        del earlier
        gc.collect()
        app.log.error("said later")
    assert "said later" in path.read_text()


def test_a_disk_without_room_for_a_page_is_said(taken, hand_in, tiny, full_disk, monkeypatch):
    from marking import feedback

    hand_in("ann.ipynb", tiny.right())
    taken()
    page = taken.course.notebook("autograded", tiny.name, "ann")
    page.parent.mkdir(parents=True)
    shutil.copy(taken.course.notebook("submitted", tiny.name, "ann"), page)
    archive = taken.course.folder / f"feedback-{tiny.name}.zip"
    archive.write_text("of an earlier time")
    monkeypatch.setattr(feedback, "rows", lambda *_: [autograde.Row(ANN, 1, 0, 1, 0, [])])
    full_disk(2 * 2**20)
    try:
        with pytest.raises(OSError, match="File too large"):
            feedback.feedback(taken.course, tiny.name)
    finally:
        full_disk()
    assert archive.read_text() == "of an earlier time"
    pages, failed = feedback.feedback(taken.course, tiny.name)  # the gradebook has no marks of hers
    assert not pages and "MissingEntry" in failed["ann"] and ".log" in failed["ann"]


@pytest.mark.parametrize("place", ["collected", "submitted", "notes"])
def test_a_disk_that_fills_up_in_between_loses_nothing(taken, hand_in, tiny, monkeypatch, place):
    hand_in("ann.ipynb", tiny.untouched())
    taken()
    before = collected(taken, tiny)
    hand_in("ann.ipynb", tiny.right())
    replaced = os.replace

    def full(part, path):
        if place in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return replaced(part, path)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        taken()
    assert place in error.value.filename
    originals = {name: content for name, content in before.items() if name.startswith("coll")}
    assert originals.items() <= collected(taken, tiny).items()
    assert not list(taken.course.folder.rglob("*.part"))
    monkeypatch.undo()
    taken()
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source
    assert not list(taken.course.folder.rglob(".*.new"))


def test_a_command_that_ended_while_it_put_an_original_in_place_lost_none(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.untouched())
    taken()
    before = collected(taken, tiny)
    folder = taken.course.folder / "collected" / "ann" / tiny.name
    folder.rename(folder.with_name(f".{tiny.name}.old"))
    (hand_in.folder / "ann.ipynb").unlink()
    hand_in("ann/film.mp4", b"not a notebook")
    hand_in("ann.ipynb", tiny.untouched())
    taken()
    assert before.items() <= collected(taken, tiny).items()


@pytest.mark.parametrize("name", ["a b", "a?b", "a#b", "a%20b", "ä'b"])
def test_the_gradebook_is_in_the_course_folder_whatever_that_is_called(tmp_path, name, empty_gradebook):
    course = Course(tmp_path / name)
    course.folder.mkdir()
    shutil.copy(empty_gradebook, course.folder / "gradebook.db")
    with course.alone():
        students.enrol(course, [ANN])
    assert students.students(course) == [ANN]
    assert os.listdir(tmp_path) == [name]
    assert course.nbgrader().coursedir.db_url == course.gradebook_url


@pytest.mark.parametrize("name", ["[ab]", "{ab}"])
def test_a_folder_whose_name_nbgrader_takes_for_a_pattern_is_refused(tmp_path, name):
    with pytest.raises(MarkingError, match="choose a name"), Course(tmp_path / name).alone():
        pass


def test_damaged_notes_stop_nobody(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.right())
    taken()
    (taken.course.folder / "notes" / tiny.name / "ann.json").write_text("")
    assert "is damaged" in taken.notes("ann")
    taken()
    assert taken.notes("ann") == ""


# ---------------------------------------------------------------- which notebook


def test_of_two_notebooks_the_one_with_the_lessons_name_counts(taken, hand_in, tiny):
    hand_in("ann/a.ipynb", tiny.untouched())
    hand_in(f"ann/{tiny.name}.ipynb", tiny.right())
    taken()
    assert taken.notes("ann") == ""
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


def test_of_two_others_the_one_with_more_answers_counts_and_a_person_is_told(taken, hand_in, tiny):
    hand_in("ann/a.ipynb", nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))
    hand_in("ann/b.ipynb", tiny.right())
    taken()
    assert "there are 2 notebooks (ann/a.ipynb, ann/b.ipynb): ann/b.ipynb" in taken.notes("ann")
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


def test_no_notebook_gets_no_mark(taken, hand_in):
    hand_in("ann/essay.pdf", b"%PDF")
    (hand_in.folder / "ann_b").mkdir()
    assert taken()[0] == ["ann"]
    assert taken.notes("ann") == "no notebook in what was handed in (ann/essay.pdf)"
    assert taken.course.handed_in("1.Tiny-Lesson") == []


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "the file is empty"),
        (b"{", "its JSON is broken"),
        (b"[" * 100_000, "its JSON is broken"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b"[]", "has no cells"),
        (b'{"cells": 3}', "has no cells"),
        (b'{"worksheets": []}', "has no cells"),
    ],
)
def test_an_unreadable_notebook_becomes_an_empty_hand_in(taken, hand_in, tiny, content, reason):
    hand_in("ann.ipynb", content)
    taken()
    assert reason in taken.notes("ann")
    assert taken.notebook("ann") == tiny.released


# ---------------------------------------------------------------- what people do to notebooks


def answered(tiny, notebook):
    made, notes = answers.answered(tiny.released, answers.cells(nbformat.writes(notebook).encode()))
    nbformat.validate(made)
    return made, " ".join(notes)


def copied(cell, source):
    """A second cell with all that is written down about one, as JupyterLab makes it."""
    second = nbformat.from_dict(json.loads(json.dumps(cell)))
    second.source, second.id = source, f"{cell.id}-copy"
    return second


def test_answers_go_where_they_belong_and_nothing_else_changes(tiny):
    made, notes = answered(tiny, tiny.right())
    assert notes == ""
    for cell, handed_out, right in zip(made.cells, tiny.released.cells, tiny.right().cells, strict=True):
        assert cell.metadata == handed_out.metadata
        assert cell.source.strip() == right.source.strip()


def test_test_cells_are_put_back(tiny):
    notebook = tiny.right()
    tiny.answer(notebook, "q01_mean_test").source = "pass"
    tiny.answer(notebook, "q02_table_test").metadata.nbgrader.points = 100
    notebook.cells.remove(tiny.answer(notebook, "q04_double_test"))
    notebook.cells.insert(0, notebook.cells.pop())  # and another one stands elsewhere
    made, notes = answered(tiny, notebook)
    assert "changed: q01_mean_test" in notes and "deleted: q04_double_test" in notes
    for name in tiny.tests:
        assert tiny.answer(made, name) == tiny.answer(tiny.released, name)


def test_of_two_answers_both_are_run_in_their_order_as_in_the_notebook(tiny):
    notebook = tiny.right()
    second = copied(tiny.answer(notebook, "q01_mean"), "def mean(values):\n    return None")
    notebook.cells.append(second)
    made, notes = answered(tiny, notebook)
    assert "answers were there more than once, and are all run in their order: q01_mean" in notes
    assert "canary" in tiny.answer(made, "q01_mean").source
    assert made.cells[-1].cell_type == "code" and made.cells[-1].source == second.source


def test_of_two_test_cells_the_first_counts_and_the_second_can_be_read(tiny):
    notebook = tiny.right()
    notebook.cells.append(copied(tiny.answer(notebook, "q01_mean_test"), "pass  # <b>"))
    made, notes = answered(tiny, notebook)
    assert "of which the first counts: q01_mean_test" in notes
    assert made.cells[-1].cell_type == "markdown" and "pass  # <\u200bb>" in made.cells[-1].source


def test_parts_of_a_split_cell_are_all_there(tiny):
    """JupyterLab gives both the metadata of the one that there was, and new ids."""
    notebook = tiny.right()
    answer = tiny.answer(notebook, "q01_mean")
    place = notebook.cells.index(answer) + 1
    notebook.cells.insert(place, copied(answer, "def helper(x):\n    return x"))
    written = tiny.answer(notebook, "q03_why")
    place = notebook.cells.index(written) + 1
    notebook.cells.insert(place, copied(written, "And <b>more</b> of it."))
    for cell in notebook.cells:
        cell.id = f"new-{cell.id}"
    made, notes = answered(tiny, notebook)
    assert notes == ""
    place = made.cells.index(tiny.answer(made, "q01_mean"))
    assert made.cells[place + 1].source == "def helper(x):\n    return x"
    why = tiny.answer(made, "q03_why").source
    assert why.startswith("A canary") and why.endswith("\n\nAnd <\u200bb>more<\u200b/b> of it.")


def test_a_cell_that_was_merged_into_another_one_leaves_no_stub(tiny):
    notebook = tiny.right()
    first, second = (tiny.answer(notebook, name) for name in ("q01_mean", "q04_double"))
    first.source += f"\n\n{second.source}"
    notebook.cells.remove(second)
    made, notes = answered(tiny, notebook)
    assert tiny.answer(made, "q04_double").source == ""
    assert notes == "graded cells were deleted: q04_double"


def test_what_was_merged_into_a_test_cell_is_run(tiny):
    notebook = tiny.right()
    answer, test = (tiny.answer(notebook, name) for name in ("q04_double", "q04_double_test"))
    test.source = f"{answer.source}\n\n{test.source}"
    notebook.cells.remove(answer)
    made, notes = answered(tiny, notebook)
    assert "changed: q04_double_test" in notes and "deleted: q04_double" in notes
    place = made.cells.index(tiny.answer(made, "q04_double_test"))
    assert made.cells[place - 1].source == answer.source.strip()


def test_the_lessons_own_cells_are_as_the_student_left_them(tiny):
    notebook = tiny.right()
    setup, shows = notebook.cells[1:3]
    setup.source += "\nimport statistics"
    shows.source = "import pandas as pd"
    notebook.cells[0].source += "\n\nMy notes <script>"
    made, notes = answered(tiny, notebook)
    assert notes == ""
    assert [cell.source for cell in made.cells[1:3]] == [setup.source, "import pandas as pd"]
    assert made.cells[2].metadata.tags == ["demo"]
    assert made.cells[0].source.endswith("My notes <\u200bscript>")


def test_the_courses_own_notebook_is_not_taken_for_a_changed_one(tiny):
    """Its pictures lie in another folder than those that are handed out with the lesson."""
    release = tiny.untouched()
    release.cells[0].source = release.cells[0].source.replace("../images/", "images/")
    made, _ = answers.answered(release, answers.cells(nbformat.writes(tiny.right()).encode()))
    assert made.cells[0] == release.cells[0]


def test_links_to_other_lessons_are_no_work_of_a_student(tiny):
    notebook = tiny.right()
    links = nbformat.v4.new_markdown_cell("Home: [Start here](../Start_Here.ipynb)", metadata=lessons.NAVIGATION)
    notebook.cells.insert(0, links)
    made, notes = answered(tiny, notebook)
    assert notes == "" and len(made.cells) == len(tiny.released.cells)


def test_a_split_or_deleted_cell_of_the_lessons_own(tiny):
    notebook = tiny.right()
    notebook.cells.pop(1)
    made, notes = answered(tiny, notebook)
    assert made.cells[1].source == tiny.released.cells[1].source
    assert notes == 'cells were deleted, and put back: “size = "reader"”'
    notebook.cells[1:1] = [nbformat.v4.new_code_cell(source) for source in ('size = "reader"', "import math")]
    notebook.cells[1].source += "\nother = 1"
    made, notes = answered(tiny, notebook)
    assert notes == "" and sum("reader" in cell.source for cell in made.cells) == 1


def test_an_answer_that_became_text_is_code_again_and_a_cell_of_ours_is_put_back(tiny):
    notebook = tiny.right()
    answer = tiny.answer(notebook, "q01_mean")
    for cell in (answer, notebook.cells[1]):
        place = notebook.cells.index(cell)
        notebook.cells[place] = nbformat.v4.new_markdown_cell(cell.source, metadata=cell.metadata, id=cell.id)
    made, notes = answered(tiny, notebook)
    assert "made text, and are code again: q01_mean" in notes and "again what they were" in notes
    assert tiny.answer(made, "q01_mean").source.strip() == answer.source.strip()
    assert made.cells[1] == tiny.released.cells[1]


def test_a_copy_of_a_cell_that_only_shows_something_is_not_run_either(tiny):
    notebook = tiny.right()
    notebook.cells.insert(3, copied(notebook.cells[2], notebook.cells[2].source))
    made, notes = answered(tiny, notebook)
    assert notes == "" and made.cells[3].metadata.tags == ["demo"]


def test_own_cells_stay_where_they_are(tiny):
    notebook = tiny.right()
    place = notebook.cells.index(tiny.answer(notebook, "q02_table"))
    notebook.cells.insert(place, nbformat.v4.new_code_cell("import numpy"))
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Mine"))
    made, notes = answered(tiny, notebook)
    assert notes == "" and made.cells[0].source == "# Mine"
    place = made.cells.index(tiny.answer(made, "q02_table"))
    assert made.cells[place - 1].source == "import numpy"


def test_a_notebook_without_cell_ids_is_recognized(tiny):
    notebook = json.loads(nbformat.writes(tiny.right()))
    for cell in notebook["cells"]:
        del cell["id"]
    made, notes = answers.answered(tiny.released, answers.cells(json.dumps(notebook).encode()))
    assert notes == [] and len(made.cells) == len(tiny.released.cells)


def test_what_no_cell_can_be_is_left_out(tiny):
    odd = [
        None,
        3,
        {},
        {"cell_type": "code", "source": 7},
        {"cell_type": "x", "source": ""},
        {"cell_type": "code", "source": "a = '\ud800'", "metadata": [], "id": 5},
        {"cell_type": "markdown", "source": ["b"], "metadata": {"nbgrader": {"grade_id": []}}},
    ]
    made, _ = answers.answered(tiny.released, answers.cells(json.dumps({"cells": odd}).encode()))
    nbformat.validate(made)
    nbformat.writes(made).encode()
    assert [cell.source for cell in made.cells[:2]] == ["a = '?'", "b"]


def test_a_page_shows_markdown_and_runs_none_of_it(tiny):
    notebook = tiny.right()
    answer = tiny.answer(notebook, "q03_why")
    answer.source = "if 1 < 2 <script>alert(1)</script> <!-- x -->"
    picture = base64.b64encode(b"\x89PNG").decode()
    answer.attachments = {
        "a.png": {"image/png": picture, "text/html": "PHNjcmlwdD4="},
        "b": {'image/png" onerror="alert(1)': picture},
    }
    made, _ = answered(tiny, notebook)
    made = tiny.answer(made, "q03_why")
    assert not any(text in made.source for text in ("<script", "</script", "<!--"))
    assert made.source.startswith("if 1 < 2 ") and made.attachments == {"a.png": {"image/png": picture}}


@pytest.mark.parametrize("reference, shown", [
    ("attachment:a.png", True), ("attachment:my%20own.png", True), ("attachment:ä.png", True),
    ('attachment:a.png "Mine"', True), ("attachment:a.svg", False), ("attachment:no.png", False),
    ("attachment:", False), ("attachment:a\\.png", False), ("images/", False), ("images/.", False),
])  # fmt: skip
def test_a_picture_that_is_missing_costs_no_page(tiny, tmp_path, reference, shown):
    from nbconvert import HTMLExporter

    (tmp_path / "images").mkdir()
    notebook = tiny.right()
    answer = tiny.answer(notebook, "q03_why")
    answer.source = f"See ![mine]({reference})."
    picture = base64.b64encode(b"\x89PNG").decode()
    answer.attachments = {name: {"image/png": picture} for name in ("a.png", "my own.png", "ä.png")}
    answer.attachments["a.svg"] = {"image/svg+xml": "PHN2Zy8+"}
    notebook.cells.append(nbformat.v4.new_markdown_cell(answer.source))
    made, _ = answered(tiny, notebook)
    nbformat.validate(made)
    page, _ = HTMLExporter(embed_images=True).from_notebook_node(made, {"metadata": {"path": str(tmp_path)}})
    assert (f"data:image/png;base64,{picture}" in page) == shown


@pytest.mark.parametrize("source", [
    "$\\href{javascri\npt:x}{a}$", "$\\href{java\tscript:x}{a}$", "[a](java\n script :x)",
    "[a](d\ta\tta:text/html,x)", "![](http://x.org/a.png)", "![a][p]", "![a\nb](//x.org/a.png)",
    "![](attachments/../../x)", "$\\href{javascript&#58;x}{a}$",
])  # fmt: skip
def test_no_link_runs_code_and_no_picture_comes_from_outside(source):
    made = answers._harmless(source)
    assert made != source and made.replace("\u200b", "") == source


@pytest.mark.parametrize("source", [
    "![mine](attachment:a.png)", "![](../images/ring.svg) [x](https://x.org) **!** `a[0]`",
    "a description: of data, and a script",
])  # fmt: skip
def test_other_markdown_stays_as_it_is(source):
    assert answers._harmless(source) == source


# ---------------------------------------------------------------- the list of students


@pytest.mark.parametrize(
    "text",
    [
        "id,first_name,last_name,email\nann,Ann,Ames,a@x.org\n",
        "\ufeffid;last_name;first_name;email;group\r\nann;Ames;Ann;a@x.org;3\r\n\r\n",
        "id\tfirst_name\tlast_name\temail\nann\tAnn\tAmes\ta@x.org\n",
        "sep=;\nid;first_name;last_name;email\nann;Ann;Ames;a@x.org\n",
        '"sep=|"\r\nid|first_name|last_name|email\r\nann|Ann|Ames|a@x.org\r\n',
        "id, first_name, last_name, email\nann, Ann, Ames, a@x.org\n",
        "\n\nID,First Name,Last  name,email\n\nann,Ann,Ames,a@x.org\n",
        "id,first_name,last_name,email\rann,Ann,Ames,a@x.org\r",
        'id,first_name,last_name,email\nann,Ann,"Ames",a@x.org\u2028\n',
        'id,last_name,first_name,email,note\nann,"Ames\n",Ann,a@x.org,"one\ntwo"\n',
        "id,first_name,last_name,email,note\nann,Ann,Ames,a@x.org,one\x85two\x0cthree\n",
    ],
)
def test_a_list_of_students_as_spreadsheets_write_it(tmp_path, text):
    (tmp_path / "list.csv").write_text(text)
    assert students.read(tmp_path / "list.csv") == [Student("ann", "Ann", "Ames", "a@x.org")]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no column “id”"),
        ("name\nann\n", "no column “id”"),
        ("id\n", "names no student"),
        ("id\nann\nANN\n", "line 3: the id ANN is there twice"),
        ("id\n../x\n", "line 2: the id '../x'"),
        ("id\na*\n", "line 2"),
        ("id\n.\n", "line 2"),
        ("id,id\nann,bob\n", "more than one column “id”"),
        (f"id\n{'x' * 300}\n", "has 300 characters"),
        ('id,first_name\nann,"Ann\nbob,Bob\n', "line 2: unexpected end"),
    ],
)
def test_a_wrong_list_of_students_is_refused_with_the_line(tmp_path, text, said):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(MarkingError, match=said.replace("*", r"\*")):
        students.read(tmp_path / "list.csv")


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_list_of_students_in_utf16(tmp_path, coding):
    mark = "\ufeff" if coding.endswith("e") else ""
    (tmp_path / "list.csv").write_bytes(f"{mark}id;first_name\nzoë;Zoë\n".encode(coding))
    assert students.read(tmp_path / "list.csv") == [Student("zoë", "Zoë")]


def test_a_wrong_row_is_left_out_and_named_and_the_others_are_read(tmp_path):
    (tmp_path / "list.csv").write_text(f"id\nann\n{'x' * 300}\n\n../x\nANN\nbob\n")
    left_out = []
    assert [s.id for s in students.read(tmp_path / "list.csv", left_out)] == ["ann", "bob"]
    assert [row.partition(", ")[2][:6] for row in left_out] == ["line 3", "line 5", "line 6"]


@pytest.mark.parametrize("row, said", [
    ('cyd,"C"x,Ames,c', "expected after"), ('cyd,"Cyd,Ames,c', "unexpected end|expected after"),
    (f"cyd,{'x' * 200_000}", "field larger"),
])  # fmt: skip
def test_a_row_that_is_no_csv_costs_no_other(tmp_path, row, said):
    path, left_out = tmp_path / "list.csv", []
    path.write_text(f"\ufeff\ufeffsep=,\nid,first_name\nann,Ann\n{row}\nbob,Bob\n")
    assert students.read(path, left_out) == [Student("ann", "Ann"), Student("bob", "Bob")]
    assert len(left_out) == 1 and re.search(f"line 4: .*({said})", left_out[0])


def test_a_list_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "list.csv").write_bytes("id,first_name\nann,Ännchen\n".encode("latin-1"))
    with pytest.raises(MarkingError, match="not UTF-8"):
        students.read(tmp_path / "list.csv")
