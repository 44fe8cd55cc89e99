"""Marking: collect and grade hand-ins, and return feedback."""
