"""Lesson 1: gradient descent, batches and averages."""
