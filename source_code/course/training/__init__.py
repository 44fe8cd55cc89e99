"""Building blocks of the training scripts."""
