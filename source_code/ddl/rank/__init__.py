"""Programs inside a job: what runs on each node, around each rank, and before its script."""
