"""Lesson 3: scripts on several workers."""
