"""Checks behind `ddl doctor`."""
