"""What a run does and how it ended, from its records."""
