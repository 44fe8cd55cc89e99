"""Marking: collecting, examining and returning what attendees hand in."""
