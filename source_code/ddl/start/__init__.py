"""From a command to ranks that run: launch, supervisors, the fork server, ranks."""
