"""The pictures in three parts, and the one file of them that ranks open: it has no labels of the private part.

The judge's side makes it from a data set (`course.challenge.judge.pictures_file`).
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from course.data import store
from ddl.errors import InputError

PARTS = ("train_images", "train_labels", "public_images", "public_labels", "private_images")


@dataclass(frozen=True, eq=False)
class Split:
    """Pictures to train on, to evaluate on, and to be judged on; uint8 ``[n, 32, 32, 3]``, labels int32 ``[n]``."""

    name: str
    form: str
    train_images: np.ndarray
    train_labels: np.ndarray
    public_images: np.ndarray
    public_labels: np.ndarray
    private_images: np.ndarray

    @classmethod
    def at(cls, path: str | Path, source: str | None = None) -> "Split":
        """Map a file of `write` into memory; InputError where it is missing, of another `source`, or has other fields.

        It then holds the labels of pictures that are not for ranks, or was made by another version.
        """
        fields = store.read(Path(path))
        if fields is None:
            raise InputError(f"{path} holds no images: `ddl challenge run` and `score` make that file.")
        if set(fields) != {"name", "form", "source", *PARTS} or source not in (None, str(fields["source"])):
            raise InputError(
                f"{path} holds other fields than a rank may have ({', '.join(sorted(fields))}): remove it."
            )
        return cls(str(fields["name"]), str(fields["form"]), *(fields[part] for part in PARTS))

    def write(self, path: Path, source: str) -> None:
        """Write the parts to a file, whole or not at all, with a text that tells what they were made of."""
        arrays = {part: getattr(self, part) for part in PARTS}
        store.write(path, name=self.name, form=self.form, source=source, **arrays)

    def beginning(self, train: int | None = None, public: int | None = None, private: int | None = None) -> "Split":
        """Return so many pictures of each part, or all; InputError where there are fewer."""
        wanted = {"train": train, "public": public, "private": private}
        for part, samples in wanted.items():
            available = len(getattr(self, f"{part}_images"))
            if samples is not None and samples > available:
                raise InputError(f"{self.name} has {available:,} {part} images: {samples:,} are not possible.")
        return replace(self, **{name: getattr(self, name)[: wanted[name.partition("_")[0]]] for name in PARTS})

    def describe(self) -> dict:
        """Return the record of these pictures that goes into ``result.json``."""
        samples = {"train_samples": len(self.train_labels), "test_samples": len(self.public_labels)}
        return {"name": self.name, "form": self.form, **samples, "held_out": "validation"}
