"""A run's folder, and the host it runs on. Standard library and psutil only: every rank imports it before its script."""
