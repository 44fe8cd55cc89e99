"""Files of a run and facts about this host. Ranks import this before their script: standard library and psutil only."""
