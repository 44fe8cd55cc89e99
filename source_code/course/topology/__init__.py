"""Lesson 2, and the machines that it looks into: ``topology.here()``, ``topology.load("dgx-1")`` (course.machine)."""

from course.machine import Topology, TopologyError, compare, here, links, load, names, placements

__all__ = ["Topology", "TopologyError", "compare", "here", "links", "load", "names", "placements"]
