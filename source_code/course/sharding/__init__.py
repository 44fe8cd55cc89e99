"""Lesson 6: what to do when a model does not fit on one device."""
