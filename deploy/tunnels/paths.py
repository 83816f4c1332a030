"""Where a machine's engine is reached: a Unix socket that only this user may enter."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings

MAX_PATH_BYTES: Final = 100
"""Linux takes 107, macOS 103; a longer path is refused by bind and connect alike."""


def socket_path(machine_id: UUID | str) -> Path:
    """The socket that leads to the engine on that machine, whether or not a tunnel is open.

    The whole id names it: the first half of a UUID 7 is its millisecond, and two machines of one millisecond must
    never share a way in.
    """
    return socket_folder() / f"{UUID(str(machine_id)).hex}.sock"


def socket_folder() -> Path:
    """RUN_DIR/t, or, where that is too long for a socket's address, a short folder named by its hash."""
    folder = Path(settings.RUN_DIR) / "t"
    if len(os.fsencode(folder)) + 1 + len("0" * 32 + ".sock") <= MAX_PATH_BYTES:
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"arrakis-{os.getuid()}-{name}"


def make_socket_folder() -> Path:
    """The folder, ours alone (0700). PermissionError where it is somebody else's or a link: never connect there."""
    folder = socket_folder()
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of ours")
    folder.chmod(0o700)
    return folder
