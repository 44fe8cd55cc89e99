"""Report on a submission's source for the instructor: hints, not verdicts."""

import ast
import zlib
from dataclasses import dataclass

import numpy as np

from course.challenge import rules

LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict)
INSIDE = (ast.UnaryOp, ast.USub, ast.Load, *LITERALS)  # what a literal of literals consists of
DYNAMIC = {"exec", "eval", "compile", "open", "__import__"}


@dataclass(frozen=True)
class Report:
    """Facts about a file: sizes in bytes, constants in characters, and what its untrained network knows."""

    size: int
    compressed: int
    constant: int  # characters of the longest literal
    constant_line: int
    imports: tuple[str, ...]  # unusual ones, and functions that reach beyond the file
    untrained: float | None = None  # share of images, by `known_share`

    def __str__(self) -> str:
        text = f"{self.size:,} bytes, {self.compressed:,} compressed, longest constant {self.constant:,} characters"
        return text if self.untrained is None else f"{text}, untrained network {self.untrained:.0%}"

    @property
    def flags(self) -> list[str]:
        """Reasons to read the file, one sentence each."""
        untrained = self.untrained or 0.0
        found = []
        if self.constant > rules.CONSTANT_CHARACTERS:
            found.append(f"line {self.constant_line} has a constant of {self.constant:,} characters")
        if self.compressed > rules.COMPRESSED_BYTES:
            found.append(f"the source has {self.compressed:,} bytes when compressed")
        if self.imports:
            found.append(f"unusual imports or calls: {', '.join(self.imports)}")
        if untrained > rules.UNTRAINED_ACCURACY:
            found.append(f"its untrained network tells {untrained:.0%} of the images apart")
        return found


def report(content: bytes) -> Report:
    """Return the report of a file's bytes, without its untrained network."""
    text = content.decode(errors="replace")
    longest, imports = (0, 0), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, LITERALS) and all(isinstance(each, INSIDE) for each in ast.walk(node)):
            longest = max(longest, (len(ast.get_source_segment(text, node) or ""), node.lineno))
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports.add(node.module or ".")
        elif isinstance(node, ast.Name) and node.id in DYNAMIC:
            imports.add(f"{node.id}()")
    unusual = {name for name in imports if not {name, name.partition(".")[0]} & rules.USUAL_IMPORTS}
    return Report(len(content), len(zlib.compress(content, 9)), *longest, tuple(sorted(unusual)))


def known_share(classes: object, labels: np.ndarray) -> float | None:
    """Return the accuracy of answers if each one counts as its most common class; None without answers."""
    if not isinstance(classes, list) or not 0 < len(classes) <= len(labels):
        return None
    table = np.zeros((rules.CLASSES + 1, rules.CLASSES), int)
    for answer, label in zip(classes, labels, strict=False):
        table[answer if answer in range(rules.CLASSES) else -1, label] += 1
    return float(table.max(1).sum() / len(classes))
