"""A job, its site, and the plan of the exact command."""
