"""Taking in what a class handed in: whose it is, archives, hostile files, full disks, and which notebook counts."""

import errno
import os
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
from marking.course import Course
from marking.students import Student
from marking.zip_plugins import FILE_BYTES

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
    collect.answered = lambda student: "[1, 4, 9]" in tiny.answer(collect.notebook(student), "q02_table").source
    return collect


def archive(files):
    """Return a zip archive of {name: bytes or a notebook}."""
    return packed({name: data if isinstance(data, bytes) else nbformat.writes(data) for name, data in files.items()})


# ---------------------------------------------------------------- whose is it?

OWNERS = {
    "ann_final version.ipynb": "ann", "ANN.ipynb": "ann", "ann/deep/in/here/x.ipynb": "ann",
    "ann_b.ipynb": "ann_b", "ann_b_2.ipynb": "ann_b", "123_x.ipynb": "123", "Ames, Ann/x.ipynb": "ann",
    # Moodle, with and without folders
    "Ames Ann_12345_assignsubmission_file_/x.ipynb": "ann",
    "Ann Ames_12345_assignsubmission_file_x.ipynb": "ann",
    "de groot Bob_123_assignsubmission_file/1.Tiny-Lesson.ipynb": "ann_b",
    "Ames Cy\u0301d_7_assignsubmission_file_/x.ipynb": "123",
    # Blackboard, Brightspace, Google Classroom
    "Lesson 1_ann_attempt_2026-11-19-17-03-10_1.Tiny-Lesson.ipynb": "ann",
    "123450-678910 - Ann Ames - Nov 19, 2026 503 PM/1.Tiny-Lesson.ipynb": "ann",
    "Bob de Groot - 1.Tiny-Lesson.ipynb": "ann_b",
    # Canvas
    "amesann_12345_6789_1.Tiny-Lesson.ipynb": "ann", "degrootbob_LATE_12_34_1.Tiny-Lesson-1.ipynb": "ann_b",
}  # fmt: skip


def test_file_names_of_learning_platforms_are_matched(taken, hand_in, tiny):
    for name, owner in OWNERS.items():
        path = hand_in(name, tiny.right())
        assert taken() == ([owner], {}), name
        assert taken.notes(owner) == ""
        (kept,) = (taken.course.folder / "collected" / owner / tiny.name).rglob("*.ipynb")
        assert kept.read_bytes() == path.read_bytes()
        shutil.rmtree(hand_in.folder)


def test_a_pattern_of_ones_own_needs_only_who(taken, hand_in, tiny):
    hand_in("week 3 (ann) v2.ipynb", tiny.right())
    found, strays = taken()
    assert not found and list(strays)
    settings = taken.course.settings
    settings.write_text("c = get_config()\nc.FileNameCollectorPlugin.named_regexp = r'.*\\(WHO\\)'\n")
    assert taken() == (["ann"], {})


@pytest.mark.parametrize("encoding", ["utf-8", "cp437"])
def test_names_in_an_archive_without_the_flag_for_utf_8_are_read(taken, tiny, tmp_path, encoding):
    class Unflagged(zipfile.ZipInfo):
        def _encodeFilenameFlags(self):
            return self.filename.encode(encoding), self.flag_bits & ~0x800

    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        entry = Unflagged(
            "Ames Cýd_7_assignsubmission_file_/x.ipynb" if encoding == "utf-8" else "Ames Ann_7_é/x.ipynb"
        )
        archive.writestr(entry, nbformat.writes(tiny.right()))
    assert taken(tmp_path / "class.zip") == (["123" if encoding == "utf-8" else "ann"], {})


def test_zip_archive_is_collected_like_a_folder(taken, tiny, tmp_path):
    files = {
        "all/ann/x.ipynb": tiny.right(),
        "all/ann_b.zip": archive({"in/y.ipynb": tiny.right(), "in.zip": archive({"z.ipynb": b""})}),
        "__MACOSX/all/._x": b"clutter",
    }
    (tmp_path / "class.zip").write_bytes(archive(files))
    assert taken(tmp_path / "class.zip") == (["ann", "ann_b"], {})
    assert taken.notes("ann") == "" and taken.answered("ann_b")
    assert (taken.course.folder / "collected/ann_b" / tiny.name / "ann_b.zip/in.zip").exists()  # it is not opened


def test_hand_in_time_is_latest_file_or_exchange(taken, hand_in, tiny, monkeypatch):
    stamp = taken.course.step("submitted", tiny.name, "ann") / "timestamp.txt"
    # A request for another look, and an attendee's own timestamp, change nothing.
    times = {"x.ipynb": 1e9, "y.txt": 1e9 + 60, "timestamp.txt": 1e9, "regrade.txt": 2e9}
    for name, at in times.items():
        content = tiny.right() if name == "x.ipynb" else b"1999-01-01 00:00:00 UTC"
        os.utime(hand_in(f"ann/{name}", content), (at, at))
    taken()
    assert stamp.read_text() == "2001-09-09 01:47:40+00:00"
    os.utime(hand_in.folder / "ann" / "x.ipynb")
    taken()  # the same answers, downloaded again
    assert stamp.read_text() == "2001-09-09 01:47:40+00:00"
    hand_in("ann/x.ipynb", tiny.untouched())
    monkeypatch.setattr("marking.collect.in_exchange", lambda *_: {"ann": hand_in.folder / "ann"})
    take_in(taken.course, tiny.name, None)
    assert stamp.read_text() == "1999-01-01 00:00:00 UTC"


def test_unmatched_files_are_listed_with_near_matches(taken, hand_in, tiny):
    students.enrol(taken.course, [Student("ann2", "Ann", "Ames"), Student("eve", "Eve", "Moss")])
    for name in ("ann", "anne", "Eva Moss_1_assignsubmission_file_/x", "Xu_2/x", "amesann_12_34_x"):
        hand_in(f"{name}.ipynb", tiny.right())
    found, strays = taken()
    assert found == ["ann"] and sorted(strays) == sorted(
        ["anne.ipynb", "Eva Moss_1_assignsubmission_file_/x.ipynb", "Xu_2/x.ipynb", "amesann_12_34_x.ipynb"]
    )
    reasons = " ".join(strays.values())
    assert "is it ann" in strays["anne.ipynb"] and "is it eve?" in reasons and "ann and ann2" in reasons
    assert "is it" not in strays["Xu_2/x.ipynb"]
    shutil.rmtree(hand_in.folder)
    hand_in("Eva Moss_1_assignsubmission_file_/x.ipynb", tiny.right())  # alone, it might be the download's folder
    assert "is it eve?" in taken()[1]["Eva Moss_1_assignsubmission_file_/x.ipynb"]


def test_late_hand_in_replaces_earlier_one(taken, hand_in, tiny, tmp_path):
    hand_in("Ann Ames_1_assignsubmission_file_/x.ipynb", tiny.untouched())
    hand_in("ann_b.ipynb", tiny.right())
    taken()
    late = tmp_path / "late"
    late.mkdir()
    nbformat.write(tiny.right(), late / "ann.ipynb")
    taken(late)
    assert taken.course.notes(tiny.name, "ann").came_as == "Ann Ames_1_assignsubmission_file_"
    assert taken.course.handed_in(tiny.name) == ["ann", "ann_b"]
    assert taken.answered("ann")


def test_review_requests_are_in_the_table(taken, hand_in, tiny):
    hand_in("ann.ipynb", tiny.right())
    taken()
    (hand_in.folder / "ann.ipynb").unlink()
    hand_in("ann/Regrade.txt", b"q01: the mean of\nnothing \x1b[2J is 0")
    assert taken() == (["ann"], {}) and taken.notes("ann") == ""
    assert list(taken.course.folder.glob("collected/ann/**/*.ipynb"))
    with taken.course.gradebook() as gradebook:
        gradebook.add_assignment(tiny.name)
    (reason,) = autograde.rows(taken.course, tiny.name, only="ann")[0].reasons
    assert reason.endswith("q01: the mean of nothing ?[2J is 0")
    taken.course.request(tiny.name, "ann").unlink()
    (row,) = autograde.rows(taken.course, tiny.name, only="ann")
    assert not row.reasons and row.handed_in


@pytest.mark.parametrize("place", ["x.ipynb", "submitted", "notes"])
def test_full_disk_is_reported_and_loses_nothing(taken, hand_in, tiny, monkeypatch, capsys, place):
    hand_in("ann/x.ipynb", tiny.untouched())
    taken()
    before = collected(taken, tiny)
    hand_in("ann/x.ipynb", tiny.right())

    def full(act):
        def acts(path, *arguments):
            if place in str(arguments[0] if act is os.replace else path):
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return act(path, *arguments)

        return acts

    monkeypatch.setattr(os, "replace", full(os.replace))
    monkeypatch.setattr("pathlib.Path.write_bytes", full(type(hand_in.folder).write_bytes))
    code = commands.main(["--course", str(taken.course.folder), "collect", "1", "--from", str(hand_in.folder)])
    assert code == 2 and "No space left" in capsys.readouterr().err
    originals = {name: content for name, content in before.items() if name.startswith("coll")}
    assert originals.items() <= collected(taken, tiny).items()
    monkeypatch.undo()
    taken()
    assert taken.answered("ann")
    assert not [*taken.course.folder.rglob("*.part"), *taken.course.folder.glob(".collecting-*")]


def test_missing_sandbox_prevents_marking(taken, hand_in, tiny, capsys, monkeypatch):
    def command(name, *more):
        return commands.main(["--course", str(taken.course.folder), name, *more]), capsys.readouterr().err

    monkeypatch.setattr(sandbox, "find", Mock(side_effect=sandbox.SandboxMissing("install bubblewrap")))
    hand_in("ann.ipynb", tiny.right())
    assert command("collect", "1", "--from", str(hand_in.folder))[0] == 0
    assert command("autograde", "1") == (2, "autograde: install bubblewrap\n")
    failed, said = command("autograde", "7")
    assert failed == 2 and "1.Tiny-Lesson" in said
    with taken.course.alone():
        failed, said = command("autograde", "1")
    assert failed == 2 and "another grading command" in said


# ---------------------------------------------------------------- hostile files


def test_archive_writes_nothing_elsewhere(taken, hand_in, tiny):
    out = ("../../../gradebook.db", "/etc/evil.txt", "../../../../evil.txt")
    hand_in("ann.zip", archive(dict.fromkeys(out, b"x") | {"x.ipynb": tiny.right()}))
    before = (taken.course.folder / "gradebook.db").read_bytes()
    assert taken() == (["ann"], {}) and taken.answered("ann")
    assert (taken.course.folder / "gradebook.db").read_bytes() == before
    written = [*taken.course.folder.parent.rglob("evil.txt"), *taken.course.folder.parent.rglob("gradebook.db")]
    assert len(written) == 4 and all(
        "collected/ann/" in str(path) for path in written if path != taken.course.folder / "gradebook.db"
    )


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
    assert all("is a link, which is not followed" in taken.notes(student) for student in found)
    assert not [path for path in taken.course.folder.rglob("*") if path.is_symlink()]
    assert taken.notebook("ann") == tiny.released


def test_bad_files_do_not_affect_other_students(taken, hand_in, tiny):
    students.enrol(taken.course, [Student(name) for name in ("pipe", "long", "bomb", "bombs")])
    (hand_in.folder / "pipe").mkdir()
    os.mkfifo(hand_in.folder / "pipe" / "x.ipynb")
    for name in ("ann_b/x.ipynb", "123/film.mp4"):
        with open(hand_in(name, b""), "wb") as file:
            file.truncate(200 * 2**20)
    hand_in("123/x.ipynb", tiny.right())
    hand_in("long.zip", archive({"x.ipynb": tiny.right(), f"{'n' * 300}.txt": b"", "a\0b.txt": b""}))
    hand_in("bomb.zip", archive({"x.ipynb": bytes(FILE_BYTES + 1)}))
    hand_in("bombs.zip", archive({f"{n}.ipynb": bytes(FILE_BYTES) for n in range(6)}))
    taken()
    words = {
        "pipe": "another special file", "ann_b": "has 200 MiB; the limit is 20", "123": "film.mp4 has 200 MiB",
        "long": "File name too long", "bomb": "has 20 MiB", "bombs": "or 100 MiB in it",
    }  # fmt: skip
    assert all(word in taken.notes(student) for student, word in words.items())
    assert taken.notebook("ann_b") == tiny.released and taken.answered("123") and taken.answered("long")


# ---------------------------------------------------------------- what is kept


def collected(taken, tiny):
    return {
        str(path.relative_to(taken.course.folder)): path.read_bytes()
        for step in ("collected", "submitted")
        for path in taken.course.folder.rglob(f"{step}/**/*")
        if path.is_file()
    }


# ---------------------------------------------------------------- which notebook


def test_notebook_with_most_answers_counts(taken, hand_in, tiny):
    """Jupyter and browsers number a second download, and a hand-in may hold both."""
    os.utime(hand_in(f"ann/{tiny.name}.ipynb", tiny.untouched()), (1e9, 1e9))
    hand_in(f"ann/{tiny.name} (1).ipynb", tiny.right())
    hand_in(f"ann_b/{tiny.name}.ipynb", tiny.right())
    hand_in("ann_b/b.ipynb", tiny.right())
    hand_in(f"123/{tiny.name}.ipynb", tiny.right())
    hand_in(f"123/.{tiny.name}.ipynb", tiny.untouched())
    twice = archive({"x.ipynb": tiny.untouched()})
    with zipfile.ZipFile(hand_in("eve.zip", twice), "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("x.ipynb", nbformat.writes(tiny.right()))
    students.enrol(taken.course, [Student("eve")])
    taken()
    assert all(map(taken.answered, ("ann", "ann_b", "123", "eve")))
    assert taken.notes("ann") == "" and f"{tiny.name}.ipynb counts" in taken.notes("ann_b")
    assert "is hidden" in taken.notes("123") and "more than once" in taken.notes("eve")


def test_no_notebook_gets_no_mark(taken, hand_in):
    (hand_in.folder / "ann_b").mkdir()
    for name, content in {"essay.pdf": b"%PDF", "x.zip": b"PK\x03\x04 broken", "y.zip": b""}.items():
        path = hand_in(f"ann/{name}", content)
        assert taken()[0] == ["ann"]
        assert f"ann/{name}" in taken.notes("ann")
        assert ("is not a zip archive that can be read" in taken.notes("ann")) == name.endswith("zip")
        assert taken.course.handed_in("1.Tiny-Lesson") == []
        path.unlink()


UNREADABLE = [
    b"", b"{", b"[" * 100_000, b"\xe4{}", b"[]", b'{"cells": 3}', b'{"worksheets": 3}', b"{\n<<<<<<< local\n}",
]  # fmt: skip


def test_unreadable_notebook_counts_as_empty(taken, hand_in, tiny):
    for content in UNREADABLE:
        hand_in("ann.ipynb", content)
        taken()
        assert "is not a notebook" in taken.notes("ann")
        assert taken.notebook("ann") == tiny.released
