"""Live ranks: processes that run the cells of a notebook and keep their variables from cell to cell."""
