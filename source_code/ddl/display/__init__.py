"""How a run and its results look, in a notebook and in a terminal."""
