"""What is handed in: one zip archive with the file, the records of its runs, and versions."""

import json
import zipfile
from datetime import datetime
from io import BytesIO
from pathlib import Path

from course.challenge.attempt import pictures, read
from course.challenge.journal import Journal, folder_of, sha256
from course.challenge.rules import TARGET
from ddl.errors import InputError
from ddl.records import files
from ddl.records.machine import versions
from ddl.records.paths import runs_dir

KEPT = ("result.json", "judged.json", "job.json")


def submit(path: str | Path, into: str | Path | None = None) -> Path:
    """Pack a submission, and the records of its scores on this machine, into a zip archive; return its path.

    The records say what you have seen; a class's marks come from the instructor's own runs of the file alone. The
    archive is ``challenge-NAME.zip`` in the working directory unless `into` names another.
    """
    content, name = read(path)
    target = Path(into).expanduser() if into else Path(f"challenge-{Path(name).stem}.zip")
    if target.suffix != ".zip" or target.is_dir():
        raise InputError(f"{target}: what is handed in is a zip archive, so its name must end in .zip")
    data = pictures("auto")
    journal = Journal.read(folder_of(sha256(content), data, {}))
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        about = {
            "file": sha256(content),
            "packed": datetime.now().isoformat(timespec="seconds"),
            "versions": versions(),
            "target": TARGET,
            "score": journal.score().verdict if journal else "not scored",
        }
        archive.writestr("records/about.json", json.dumps(about, indent=1) + "\n")
        if journal:
            archive.write(journal.folder / "journal.json", "records/journal.json")
            for run in (entry.run for entry in journal.entries if entry.run):
                for record in (runs_dir() / run / kept for kept in KEPT):
                    if record.is_file():
                        archive.write(record, f"records/{run}/{record.name}")
    files.write(target, packed.getvalue())
    return target
