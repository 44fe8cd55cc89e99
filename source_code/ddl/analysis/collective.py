"""Where notebooks that were saved before `ddl.analysis.ring` drove all algorithms import the driver from."""

from ddl.analysis.ring import exchange  # noqa: F401
