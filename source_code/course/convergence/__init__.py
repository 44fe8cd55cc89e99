"""Lesson 4: batch size, learning rates and what they cost."""
