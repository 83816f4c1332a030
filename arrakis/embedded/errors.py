"""The one error of the embedded services: a sentence for the person who started them."""

from __future__ import annotations


class EmbeddedError(RuntimeError):
    """What kept the services from starting, and what to do about it."""
