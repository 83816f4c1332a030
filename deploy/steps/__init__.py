"""One function for each state: what to do with a replica that is in it."""
