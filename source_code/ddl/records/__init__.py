"""A run's folder, and the host it runs on. Ranks import this before their script: standard library and psutil only."""
