"""What the training scripts share; their ranks import it."""
