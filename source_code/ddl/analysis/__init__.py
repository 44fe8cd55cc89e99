"""Numbers and tables, from records."""
