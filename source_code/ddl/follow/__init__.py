"""States, progress, failures and restarts of a run, from its records."""
