"""Lesson 2: how machines are connected, and what that costs."""
