"""Lesson 4: batch sizes, learning rates and their cost."""
