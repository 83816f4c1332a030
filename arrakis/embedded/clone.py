"""What belongs to one clone: its private folder, its secrets, its short folders and the users its services run as."""

from __future__ import annotations

import base64
import json
import os
import pwd
import secrets
import stat
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.files import locked, read_json, write_private

THIS_CLONE = Path(__file__).resolve().parents[2]

_HOMES = (Path("/var/lib/arrakis-services"), Path("/var/tmp/arrakis-services"))  # noqa: S108  (checked to be root's own)

# Users that exist only as numbers: the range that systemd hands out for services and nobody else uses.
_UIDS = range(61_184, 65_520)


@dataclass(frozen=True)
class CloneSecrets:
    secret_key: str
    encryption_key: str
    postgres_password: str
    valkey_password: str


def private_folder(root: Path | None = None) -> Path:
    """`.arrakis/` of the clone, for its owner only."""
    folder = (root or THIS_CLONE) / ".arrakis"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        raise EmbeddedError(f"Cannot make {folder}: {error.strerror}. The clone must be writable by you.") from error
    if owner != os.geteuid() and os.geteuid() != 0:
        raise EmbeddedError(
            f"{folder} belongs to another user (uid {owner}). Run this as that user, or have them remove the folder."
        )
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    return folder


def clone_secrets(root: Path | None = None) -> CloneSecrets:
    """The clone's keys and passwords, made once."""
    folder = private_folder(root)
    path = folder / "secrets.json"
    kept = read_json(path)
    if not kept:
        with locked(folder / "lock"):
            kept = read_json(path) or _made(path)
    return CloneSecrets(**kept)


def _made(path: Path) -> dict[str, str]:
    if path.exists():
        raise EmbeddedError(f"{path} cannot be read. Restore it, or remove it together with its folder to start anew.")
    made = {
        "secret_key": secrets.token_urlsafe(48),
        "encryption_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "postgres_password": secrets.token_urlsafe(24),
        "valkey_password": secrets.token_urlsafe(24),
    }
    write_private(path, json.dumps(made, indent=1))
    return made


def run_dir(root: Path | None = None) -> Path:
    """A private folder (0700) with a name short enough for Unix sockets (107 bytes), wherever the clone lies."""
    return _short_folder(root, "run", owner=os.geteuid())


def socket_dir(root: Path, instance: str, owner: int) -> Path:
    """Where this instance's PostgreSQL listens: a private folder of the user that it runs as."""
    return _short_folder(root, f"sockets-{instance}", owner=owner)


def forget_socket_dir(root: Path, instance: str) -> Path:
    """The folder that was used so far, to be removed; the next start makes another."""
    with _places(root) as places:
        return Path(str(places.pop(f"sockets-{instance}", root / ".arrakis" / "none")))


def service_uid(root: Path) -> int:
    """Who PostgreSQL and Valkey run as: ourselves, or, for root, a user that owns nothing else."""
    return _own_uid(root, "services") if os.geteuid() == 0 else os.geteuid()


def machine_uid(root: Path | None = None) -> int:
    """Who the demo host runs customers' processes as: ourselves, or, for root, a user that owns nothing else."""
    return _own_uid(root or THIS_CLONE, "machine") if os.geteuid() == 0 else os.geteuid()


def data_home(root: Path) -> Path:
    """Where data and copied binaries lie: in the clone; for root, where an unprivileged user can reach it."""
    if os.geteuid() != 0:
        return private_folder(root)
    with _places(root) as places:
        home = Path(str(places.get("home", "")))
        if places.get("home") and home.is_dir() and home.stat().st_uid == 0:
            return home
        name = sha256(os.fsencode(root) + clone_secrets(root).secret_key.encode()).hexdigest()[:12]
        for parent in _HOMES:
            if _made_reachable(parent) and _made_reachable(parent / name):
                places["home"] = str(parent / name)
                return parent / name
    raise EmbeddedError("Neither /var/lib nor /var/tmp can hold the services' data; one must be writable.")


def reachable_by_others(path: Path) -> bool:
    """Whether any user may read `path` and pass through every folder above it."""
    wanted = 0o005 if path.is_dir() else 0o004
    try:
        if path.stat().st_mode & wanted != wanted:
            return False
        return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)
    except OSError:
        return False


def _made_reachable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o711, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != 0:
            return False
        folder.chmod(0o711)
    except OSError:
        return False
    return all(parent.stat().st_mode & 0o001 for parent in folder.parents)


class _places:
    """The clone's `places.json`, locked while it is changed. A copied clone has another folder and so starts anew."""

    def __init__(self, root: Path) -> None:
        self.folder = private_folder(root)
        self.path = self.folder / "places.json"
        self.lock = locked(self.folder / "places.lock")

    def __enter__(self) -> dict[str, Any]:
        self.lock.__enter__()
        identity = self.folder.stat()
        kept = read_json(self.path)
        of = [identity.st_dev, identity.st_ino]
        self.before = kept if kept.get("of") == of else {}
        self.places: dict[str, Any] = {"of": of, **self.before}
        return self.places

    def __exit__(self, *_exception: object) -> None:
        if self.places != self.before:
            write_private(self.path, json.dumps(self.places, indent=1))
        self.lock.__exit__(None, None, None)


def _short_folder(root: Path | None, name: str, *, owner: int) -> Path:
    with _places(root or THIS_CLONE) as places:
        kept = Path(str(places.get(name, "")))
        if places.get(name) and _is_private(kept, owner):
            return kept
        made = Path(tempfile.mkdtemp(prefix="arrakis-", dir=_short_parent()))
        if owner != os.geteuid():
            os.chown(made, owner, owner)
        places[name] = str(made)
        return made


def _short_parent() -> Path:
    for folder in (Path("/tmp"), Path("/var/tmp"), Path(tempfile.gettempdir())):  # noqa: S108
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise EmbeddedError("No temporary folder can be written to; /tmp or /var/tmp must be.")


def _is_private(folder: Path, owner: int) -> bool:
    try:
        seen = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == owner and not seen.st_mode & 0o077


def _own_uid(root: Path, purpose: str) -> int:
    with _places(root) as places:
        key = f"uid-{purpose}"
        if key not in places:
            taken = {account.pw_uid for account in pwd.getpwall()}
            taken |= {uid for name, uid in places.items() if name.startswith("uid-")}
            places[key] = _free_uid(f"{root}:{purpose}", taken)
        return int(places[key])


def _free_uid(name: str, taken: set[int]) -> int:
    start = int(sha256(os.fsencode(name)).hexdigest(), 16)
    for step in range(len(_UIDS)):
        uid = _UIDS[(start + step) % len(_UIDS)]
        if uid not in taken and _can_own(uid):
            return uid
    raise EmbeddedError("No unprivileged user id is free here; run as an ordinary user instead of root.")


def _can_own(uid: int) -> bool:
    """Whether this id exists for the kernel (a container may map few)."""
    with tempfile.NamedTemporaryFile(dir=_short_parent()) as probe:
        try:
            os.chown(probe.name, uid, uid)
        except OSError:
            return False
    return True
