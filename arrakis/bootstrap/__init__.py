"""Set-up of a fresh clone, with Python's standard library alone: see `__main__`."""
