"""What is right and wrong with this machine, and with a site."""
