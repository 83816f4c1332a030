"""The control API (DESIGN section 6): thin views over the same functions that the console calls."""
