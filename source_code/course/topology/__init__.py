"""Lesson 2, and the machines that it looks into: ``topology.here()``, ``topology.load("dgx-1")`` (course.machine)."""

from course.machine import Topology, TopologyError, here, links, load, names

__all__ = ["Topology", "TopologyError", "here", "links", "load", "names"]
