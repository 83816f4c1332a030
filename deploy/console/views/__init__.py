"""Pages of the console, one module a subject."""
