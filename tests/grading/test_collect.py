"""Taking in what a class handed in: whose it is, archives, hostile files, full disks."""

import errno
import os
import resource
import shutil
import stat
import zipfile
from unittest.mock import Mock

import nbformat
import pytest

from helpers import archive as packed
from marking import __main__ as commands
from marking import autograde, sandbox, students
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
    """Return a zip archive of {name: bytes or a notebook}."""
    return packed({name: data if isinstance(data, bytes) else nbformat.writes(data) for name, data in files.items()})


# ---------------------------------------------------------------- whose is it?


def test_names_that_learning_platforms_give(taken, hand_in, tiny):
    owners = {
        "ann_final version.ipynb": "ann", "ANN.ipynb": "ann", "ann/deep/in/here/x.ipynb": "ann",
        "ann_b.ipynb": "ann_b", "ann_b_2.ipynb": "ann_b", "123_x.ipynb": "123",
        "Ames Ann_12345_assignsubmission_file_/x.ipynb": "ann",
        "Ann Ames_12345_assignsubmission_file_x.ipynb": "ann",
        "de groot Bob_123_assignsubmission_file_/1.Tiny-Lesson.ipynb": "ann_b",
        "Ames, Cy\u0301d_7_assignsubmission_file_/x.ipynb": "123",
    }  # fmt: skip
    for name, owner in owners.items():
        path = hand_in(name, tiny.right())
        assert taken() == ([owner], []), name
        assert taken.notes(owner) == ""
        (kept,) = (taken.course.folder / "collected" / owner / tiny.name).rglob("*.ipynb")
        assert kept.read_bytes() == path.read_bytes()
        shutil.rmtree(hand_in.folder)


def test_files_that_match_nobody_are_named_and_the_others_taken_in(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.right())
    hand_in("anne.ipynb", tiny.right())
    students.enrol(taken.course, [Student("ann2", "Ann", "Ames")])
    for name in ("Dan", "Ann"):
        hand_in(f"{name} Ames_1_assignsubmission_file_/x.ipynb", tiny.right())
    found, strays = taken()
    assert found == ["ann"]
    assert {stray.name: stray.reason for stray in strays} == {
        "anne.ipynb": "no student has that id or name: is it ann?",
        "Dan Ames_1_assignsubmission_file_/x.ipynb": "no student has that id or name",
        "Ann Ames_1_assignsubmission_file_/x.ipynb": "the name is that of ann and ann2: put it into a folder named by the id",
    }


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


def test_a_late_hand_in_replaces_the_earlier_one_and_goes_back_by_the_platforms_name(taken, hand_in, tiny, tmp_path):
    name = "Ann Ames_1_assignsubmission_file_"
    hand_in(f"{name}/x.ipynb", tiny.untouched())
    hand_in("ann_b.ipynb", tiny.right())
    taken()
    late = tmp_path / "late"
    late.mkdir()
    nbformat.write(tiny.right(), late / "ann.ipynb")
    taken(late)
    assert taken.course.notes(tiny.name, "ann").came_as == name
    assert taken.course.handed_in(tiny.name) == ["ann", "ann_b"]
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


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


def test_a_missing_sandbox_is_said_before_marking_and_nothing_is_marked_without_one(
    taken, hand_in, tiny, capsys, monkeypatch
):
    def command(name, *more):
        return commands.main(["--course", str(taken.course.folder), name, *more]), capsys.readouterr().err

    monkeypatch.setattr(sandbox, "find", Mock(side_effect=sandbox.SandboxMissing("install bubblewrap")))
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


def test_an_archive_that_leads_out_of_itself_is_refused(taken, hand_in, tiny, tmp_path):
    out = {"../../../gradebook.db": b"x", "/etc/evil.ipynb": b"x", "..\\..\\evil.ipynb": b"x"}
    hand_in("ann.zip", archive(out | {"x.ipynb": tiny.right()}))
    before = (taken.course.folder / "gradebook.db").read_bytes()
    assert taken() == (["ann"], [])
    assert taken.notes("ann").count("leads out of its archive") == 1  # both are evil.ipynb
    assert (taken.course.folder / "gradebook.db").read_bytes() == before
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source
    files = {"../ann/x.ipynb": b"x", "/ann_b/x.ipynb": b"x", "ok/y.txt": b"", "123/x.ipynb": tiny.right()}
    (tmp_path / "class.zip").write_bytes(archive(files))
    found, strays = taken(tmp_path / "class.zip")
    assert found == ["123"] and len(strays) == 3


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


def test_a_full_disk_is_said_and_loses_nothing(taken, hand_in, tiny, full_disk, capsys):
    hand_in("ann.ipynb", tiny.untouched())
    taken()
    before = collected(taken, tiny)
    hand_in("ann.ipynb", tiny.right())
    options = {"collect": ["--from", str(hand_in.folder)], "release": ["--sources", str(tiny.sources)]}
    for command in ("collect", "autograde", "grades", "feedback", "release"):
        full_disk(4096)
        try:
            code = commands.main(["--course", str(taken.course.folder), command, "1", *options.get(command, [])])
        finally:
            full_disk()
        shown = capsys.readouterr().err
        assert code == 2 and "File too large" in shown and str(taken.course.folder) in shown, shown
        assert collected(taken, tiny) == before
    taken()
    assert "[1, 4, 9]" in tiny.answer(taken.notebook("ann"), "q02_table").source


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


def test_the_gradebook_is_in_the_course_folder_whatever_that_is_called(tmp_path, empty_gradebook):
    for number, name in enumerate(("a b", "a?b", "a#b", "a%20b", "ä'b")):
        course = Course(tmp_path / str(number) / name)
        course.folder.mkdir(parents=True)
        shutil.copy(empty_gradebook, course.folder / "gradebook.db")
        with course.alone():
            students.enrol(course, [ANN])
        assert students.students(course) == [ANN]
        assert "gradebook.db" in os.listdir(course.folder)
        assert course.nbgrader().coursedir.db_url == course.gradebook_url
    for name in ("[ab]", "{ab}"):
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


def test_of_two_notebooks_the_lessons_counts_or_the_one_with_more_answers(taken, hand_in, tiny):
    hand_in("ann/a.ipynb", tiny.untouched())
    hand_in(f"ann/{tiny.name}.ipynb", tiny.right())
    hand_in("ann_b/a.ipynb", nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))
    hand_in("ann_b/b.ipynb", tiny.right())
    taken()
    assert taken.notes("ann") == ""
    assert "there are 2 notebooks (ann_b/a.ipynb, ann_b/b.ipynb): ann_b/b.ipynb" in taken.notes("ann_b")
    for student in ("ann", "ann_b"):
        assert "[1, 4, 9]" in tiny.answer(taken.notebook(student), "q02_table").source


def test_no_notebook_gets_no_mark(taken, hand_in):
    (hand_in.folder / "ann_b").mkdir()
    for name, content in {"essay.pdf": b"%PDF", "x.zip": b"PK\x03\x04 broken", "y.zip": b""}.items():
        path = hand_in(f"ann/{name}", content)
        assert taken()[0] == ["ann"]
        assert f"no notebook in what was handed in (ann/{name})" in taken.notes("ann")
        assert ("is not a zip archive that can be read" in taken.notes("ann")) == name.endswith("zip")
        assert taken.course.handed_in("1.Tiny-Lesson") == []
        path.unlink()


def test_an_unreadable_notebook_becomes_an_empty_hand_in(taken, hand_in, tiny):
    for content, reason in {
        b"": "the file is empty",
        b"{": "its JSON is broken",
        b"[" * 100_000: "its JSON is broken",
        b"\xff\xfe{}": "is not UTF-8",
        b"[]": "has no cells",
        b'{"cells": 3}': "has no cells",
        b'{"worksheets": []}': "has no cells",
    }.items():
        hand_in("ann.ipynb", content)
        taken()
        assert reason in taken.notes("ann")
        assert taken.notebook("ann") == tiny.released
