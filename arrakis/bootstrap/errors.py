"""The one error of set-up: a sentence for the person at the terminal."""

from __future__ import annotations


class SetupError(Exception):
    """What stopped set-up, and what to do about it."""


def explained(said: str) -> str | None:
    """A sentence for what a tool printed, where its own words would not help."""
    text = said.lower()
    if "no space left" in text or "os error 28" in text or "disk quota" in text:
        return "The disk is full: set-up needs about 1 GB in the clone and as much for the packages' cache."
    if any(sign in text for sign in ("certificate", "tls", "ssl")) and "error" in text:
        return (
            "The package index's certificate was not accepted."
            " If a proxy of yours signs it, name its certificate: SSL_CERT_FILE=/path/to/ca.pem make demo"
        )
    unreachable = ("dns error", "error sending request", "connection refused", "network is unreachable", "timed out")
    if any(sign in text for sign in (*unreachable, "failed to fetch", "name resolution", "name or service not known")):
        return (
            "The Python package index cannot be reached, and the first set-up needs it."
            " Behind a proxy set HTTPS_PROXY; with a mirror set PIP_INDEX_URL."
        )
    return None
