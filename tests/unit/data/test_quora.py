"""Quora's questions: the CSV checked and kept, splits of one imbalance, and generated questions."""

import csv
import zipfile

import numpy as np
import pytest

from course.data import DataError, add, is_there, listing, load_questions, quora
from ddl.cli import main

# Features of the real file: quotes, commas, line breaks inside a question, non-English letters.
TEXTS = ['What is "love"?', "Why, oh why?", "Is this\none question?", "¿Qué es esto? 你好", "  So? "]


def write(path, rows=None, columns=quora.COLUMNS, encoding="utf-8"):
    rows = [(f"{k:020x}", text, k % 2) for k, text in enumerate(TEXTS)] if rows is None else rows
    with open(path, "w", encoding=encoding, newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def test_csv_is_stored_unchanged(tmp_path, folder, capsys):
    assert main(["data", "add", "quora", str(write(tmp_path / "train.csv"))]) == 0
    assert f"5 questions, 40.0% of them insincere, in {folder}" in capsys.readouterr().out
    questions = load_questions("quora")
    assert questions.texts.tolist() == TEXTS and questions.targets.tolist() == [0, 1, 0, 1, 0]
    assert (questions.name, questions.form) == ("quora", "official layout")
    entry = listing()[-1]
    assert entry.is_here and "5 questions" in str(entry)


def test_zip_archive_with_byte_order_mark_is_read(tmp_path):
    path = write(tmp_path / "train.csv", encoding="utf-8-sig")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(path, "somewhere/train.csv")
        archive.writestr("test.csv", "qid,question_text\n")
    add("quora", tmp_path / "all.zip", str)
    assert load_questions("quora").texts.tolist() == TEXTS


def test_auto_prefers_real_questions(tmp_path, folder):
    made = load_questions("auto", samples=200)
    assert made.form == "generated" and f"not in {folder}" in made.note
    assert not is_there("quora") and "ddl data add quora" in str(listing()[-1])
    add("quora", write(tmp_path / "train.csv"), str)
    assert is_there("quora") and load_questions("auto").name == "quora"


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([], ("qid", "question_text"), "has no column target.*test.csv has no targets"),
        ([("a", "Yes?", 0), ("b", "No?", 2)], quora.COLUMNS, "line 3: .*'No\\?' and '2'"),
    ],
)
def test_wrong_csv_is_refused(tmp_path, folder, rows, columns, message):
    with pytest.raises(DataError, match=message):
        add("quora", write(tmp_path / "other.csv", rows, columns), str)
    assert not is_there("quora") and not list(folder.glob("quora*"))


def test_parts_are_disjoint_cover_all_and_are_stratified():
    questions = quora.generate(3000)
    splits = questions.splits(validation=0.2, test=0.1)
    texts = [splits.train.texts, splits.validation.texts, splits.test.texts]
    assert questions.splits(0.2, 0.1).test.texts.tolist() == splits.test.texts.tolist()
    assert questions.splits(0.2, 0.1, seed=1).test.texts.tolist() != splits.test.texts.tolist()
    assert [len(part) for part in texts] == [2100, 600, 300]
    assert sorted(np.concatenate(texts)) == sorted(questions.texts)
    share = questions.targets.mean()
    for part in (splits.train, splits.validation, splits.test):
        assert abs(part.targets.sum() - share * len(part)) <= 2
    described = splits.describe()
    assert [described[f"{name}_samples"] for name in ("train", "validation", "test")] == [2100, 600, 300]
    assert described["positive_share"] == splits.train.targets.mean()
