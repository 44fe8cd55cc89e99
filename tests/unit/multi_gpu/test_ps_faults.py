"""Lesson 3's claims about slow and lost processes, against the recorded launches."""

from course.multi_gpu import ps_faults
from helpers import ROOT

LESSON = ROOT / "lessons" / "3b.Strategies-in-Depth.py"
SENTENCES = {
    "slow worker costs more than its own share": lambda found: (
        # Without a wait, half of the updates would be left, and a tenth of the other half.
        max(row["updates_per_s"] for row in found["held"]) < 0.55 * min(row["updates_per_s"] for row in found["plain"])
    ),
    "when one stops, the others make only a few more updates": lambda found: (
        found["stopped"][0]["went_on_s"] < 2 < found["stopped"][0]["quiet_s"]
    ),
    "A lost worker ended the run here, by the launcher": lambda found: (
        found["worker lost"][0]["state"] == "failed" and "worker 1" in found["worker lost"][0]["sentence"]
    ),
    "With a lost parameter server the weights are gone": lambda found: (
        found["server lost"][0]["state"] == "failed" and "ps 0" in found["server lost"][0]["sentence"]
    ),
}


def test_claims_about_faults_hold_on_the_records():
    text = " ".join(line.removeprefix("# ") for line in LESSON.read_text().splitlines())
    found = ps_faults.records()
    for sentence, holds in SENTENCES.items():
        assert sentence in text
        assert holds(found), (sentence, found)
