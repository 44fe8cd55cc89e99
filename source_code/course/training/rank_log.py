"""Records of each rank of `bug_hunt.py`, for `course.multi_gpu.mistakes`, and saved weights."""

from pathlib import Path

from ddl.records.folder import RunFolder


def keep_weights(folder: RunFolder, weights) -> Path:
    """Write the arrays to the run's ``weights.npz``, as arr_0, arr_1 and so on, and return its path."""
    folder.write_arrays(folder.weights, *weights)  # atomic: two ranks may write at the same time
    return folder.weights


class StepLog:
    """Recorder of one rank's observations; does nothing outside a run."""

    def __init__(self, rank: int):
        self.rank = rank
        self.folder = RunFolder.here()
        if self.folder:
            self.folder.step_log(rank).unlink(missing_ok=True)  # from before a restart of this job

    def tell(self, event: str, **fields):
        """Append ``{"event": event, **fields}`` to ``steps-<rank>.jsonl``."""
        if self.folder:
            self.folder.append(self.folder.step_log(self.rank), {"event": event, **fields})

    def keep_weights(self, weights) -> str | None:
        """Write the arrays to the run's ``weights.npz``; return its name, or None outside a run."""
        return keep_weights(self.folder, weights).name if self.folder else None
