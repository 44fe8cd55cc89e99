"""From a call of launch() to a run that can be followed, shown and stopped."""
