"""Launch, follow, record and compare runs of distributed training scripts.

The names below are all that a notebook needs. They are imported on first use, so that ``import ddl`` costs next to
nothing in the workers and in the command line.
"""

import os

from ddl.lazy import lazy_names

# TensorFlow leaves oneDNN off on processors without AVX-512 VNNI (AMD's before Zen 4, Intel's of laptops), where it
# computes twice as fast, too. Whoever imports this before TensorFlow has it, and ranks do.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__version__ = "0.2.0"  # CHANGELOG.md says what is new

_HOME = {
    "launch": "launcher.launch",
    "attach": "launcher.run",
    "runs": "launcher.run",
    "Run": "launcher.run",
    "RunFailed": "launcher.run",
    "has_torch": "launcher.extras",
    "Job": "launcher.job",
    "Site": "launcher.site",
    "Recorder": "records.recorder",
    "compare": "comparison",
    "paired": "pairs",
    "doctor": "diagnose.machine",
    "beside": "display.guess",
}
_MODULES = {"cluster": "rank.cluster", "hosts": "rank.hosts", "stack": "records.stack"}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME, _MODULES)
