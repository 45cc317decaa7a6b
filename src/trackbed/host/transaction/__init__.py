"""A machine made as planned, all of it or nothing; recorded before, undone from the record."""
