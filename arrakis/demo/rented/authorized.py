"""authorized_keys as OpenSSH reads it: asyncssh parses a line, what it leaves open is settled here.

An option that is not known makes the line void, as in OpenSSH: a restriction must not be lost to a spelling.
`environment` is taken and, as in OpenSSH by default, not obeyed: the server gives the mark of a line's comment instead.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asyncssh
from asyncssh.auth_keys import SSHAuthorizedKeys

LINE: Final = "arrakis-line"
"""In the options of whoever logged in: the line that let them in."""
MARK: Final = "arrakis-mark"
"""Also there: `arrakis:LABEL:KIND`, from the line's last word; empty without."""

_MAX_BYTES: Final = 1024 * 1024
_MARK: Final = re.compile(r"(arrakis:[a-z0-9-]+:[a-z]+)(?::[A-Za-z0-9-]+)?\Z")
_PERMISSIONS: Final = ("pty", "port-forwarding", "agent-forwarding", "X11-forwarding", "user-rc")
_KNOWN: Final = frozenset(
    {
        "restrict",
        "command",
        "environment",
        "expiry-time",
        "from",
        "permitopen",
        "permitlisten",
        "no-touch-required",
        "verify-required",
    }
    | {prefix + permission for permission in _PERMISSIONS for prefix in ("", "no-")}
)


class AuthorizedKeys(SSHAuthorizedKeys):
    """Keys only: certificates are not taken."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        stripped = (line.strip() for line in text.splitlines())
        self.lines = [line for line in stripped if line and not line.startswith("#")]

    def validate(
        self,
        key: asyncssh.SSHKey,
        client_host: str,
        client_addr: str,
        cert_principals: Sequence[str] | None = None,
        ca: bool = False,
    ) -> Mapping[str, object] | None:
        """The options of the first line that lets `key` in, or None."""
        if ca:
            return None
        for line in self.lines:
            options = _options(line, key, client_host, client_addr)
            if options is not None:
                return options
        return None

    def validate_x509(self, *_: Any) -> tuple[None, None]:
        return None, None


def read(path: Path) -> AuthorizedKeys:
    """What the file holds now; nobody where there is none, or one too large to be meant."""
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_BYTES else b""
    except OSError:
        return AuthorizedKeys()
    return AuthorizedKeys(content.decode("utf-8", errors="replace"))


def mark_of(line: str) -> str:
    """`arrakis:LABEL:KIND` where the line's comment is one, with or without an id after it."""
    found = _MARK.match(line.split()[-1])
    return found.group(1) if found else ""


def _options(line: str, key: asyncssh.SSHKey, client_host: str, client_addr: str) -> dict[str, object] | None:
    try:
        found = asyncssh.import_authorized_keys(line).validate(key, client_host, client_addr)
    except ValueError:
        return None
    if found is None or not _KNOWN.issuperset(found) or _is_expired(found.get("expiry-time")):
        return None
    options = {**found, LINE: line, MARK: mark_of(line)}
    if "restrict" in options:
        options |= {f"no-{name}": True for name in _PERMISSIONS if name not in found}
    return options


def _is_expired(values: object) -> bool:
    """Whether one of the dates (YYYYMMDD[HHMM[SS]], UTC with a Z) has passed; one that is no date has."""
    return isinstance(values, list) and any(time.time() >= _moment(str(value)) for value in values)


def _moment(text: str) -> float:
    digits = text.removesuffix("Z")
    form = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}.get(len(digits), "")
    try:
        parsed = time.strptime(digits, form)
    except ValueError:
        return 0.0
    return float(calendar.timegm(parsed)) if text.endswith("Z") else time.mktime(parsed)
