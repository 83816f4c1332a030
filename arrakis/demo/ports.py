"""Ports of loopback: the one wanted, or the next that is free."""

from __future__ import annotations

import socket


def next_free(wanted: int, *, taken: set[int] | None = None, tries: int = 200) -> int:
    """The first free port from `wanted` on. Raises OSError when none of `tries` is."""
    for port in range(wanted, min(wanted + tries, 65_536)):
        if port not in (taken or set()) and _is_free(port):
            return port
    raise OSError(f"No port from {wanted} on is free.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do: a port just left is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
