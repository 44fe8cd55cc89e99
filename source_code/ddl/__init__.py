"""Launch, follow, record and compare runs of distributed training scripts.

A notebook needs only the names below. They are imported on first use, so that ``import ddl`` is fast in ranks and on
the command line.
"""

import os

from ddl.lazy import lazy_names

# TensorFlow leaves oneDNN off on processors without AVX-512 VNNI (AMD before Zen 4, Intel's for laptops), although it
# is twice as fast there too. This takes effect if `ddl` is imported before TensorFlow, as in every rank.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

__version__ = "0.2.0"  # CHANGELOG.md says what is new

_HOME = {
    "launch": "start.launch",
    "allocation": "start.allocation",
    "attach": "follow.run",
    "runs": "follow.run",
    "Run": "follow.run",
    "RunFailed": "follow.run",
    "has_torch": "records.stack",
    "Job": "job.job",
    "Site": "job.site",
    "Recorder": "records.recorder",
    "compare": "comparison",
    "paired": "paired_stats",
    "doctor": "diagnose.machine",
    "load_ipython_extension": "live.magics",
    "pull": "live.magics",
}
_MODULES = {"cluster": "start.tf_config", "hosts": "start.netns_hosts", "stack": "records.stack"}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME, _MODULES)
