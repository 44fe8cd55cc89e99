"""What is to run, and the exact command for it."""
