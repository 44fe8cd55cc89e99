"""Presentation of runs and results in notebooks and terminals."""
