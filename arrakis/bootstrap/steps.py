"""The steps of set-up. Once done for what is asked, they cost a few milliseconds and no network."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from arrakis.bootstrap.errors import SetupError, explained
from arrakis.bootstrap.uv import has_system_certificates, index_url, is_mirrored, uv_binary

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
TOOLS = ROOT / ".uv"
GROUPS = ("demo", "test", "browser", "lint")


def main(groups: list[str]) -> int:
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        print(f"There is no group {unknown[0]!r}; there are {', '.join(GROUPS)}.", file=sys.stderr)
        return 2
    try:
        set_up(set(groups) | {"demo"})
    except SetupError as error:
        print(f"\nSet-up stopped. {error}", file=sys.stderr)
        return 1
    except OSError as error:
        sentence = explained(str(error)) or f"{error.filename or 'A file'} cannot be written: {error.strerror}."
        print(f"\nSet-up stopped. {sentence}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up was interrupted; run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def set_up(groups: set[str]) -> None:
    """Bring `.venv` to what the lock says for these groups and those installed before; compile the catalogues."""
    if not _is_current(groups):
        TOOLS.mkdir(exist_ok=True)
        with (TOOLS / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_current(groups):  # somebody else's set-up may have just done it
                _install(groups | _installed_groups())
    _compile_catalogues()
    (ROOT / ".arrakis").mkdir(mode=0o700, exist_ok=True)
    (ROOT / ".arrakis" / "static").mkdir(exist_ok=True)


def _is_current(groups: set[str]) -> bool:
    stamp = _stamp()
    python = VENV / "bin" / "python"
    return stamp.get("inputs") == _inputs() and groups <= set(stamp.get("groups", [])) and python.exists()


def _installed_groups() -> set[str]:
    return set(_stamp().get("groups", [])) & set(GROUPS)


def _stamp() -> dict[str, Any]:
    try:
        value = json.loads((VENV / "arrakis-setup.json").read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _inputs() -> str:
    digest = hashlib.sha256()
    for name in ("uv.lock", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    digest.update(f"{sys.version}|{_base_python()}|{sysconfig.get_platform()}|{ROOT}".encode())
    return digest.hexdigest()


def _base_python() -> str:
    """The interpreter itself, also when this runs from a virtual environment."""
    return getattr(sys, "_base_executable", None) or sys.executable


def _install(groups: set[str]) -> None:
    started = time.monotonic()
    uv = uv_binary(TOOLS)
    print(f"Installing the packages of uv.lock ({', '.join(sorted(groups))}) ...", flush=True)
    (VENV / "arrakis-setup.json").unlink(missing_ok=True)
    chosen = [word for group in sorted(groups) for word in ("--group", group)]
    if is_mirrored():
        _install_from_mirror(uv, chosen)
    else:
        _run(uv, "sync", "--locked", "--no-default-groups", "--no-build", "--python", _base_python(), *chosen)
    stamp = {"inputs": _inputs(), "groups": sorted(groups)}
    (VENV / "arrakis-setup.json").write_text(json.dumps(stamp, indent=1))
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)


def _install_from_mirror(uv: Path, chosen: list[str]) -> None:
    """The lock names the public index's addresses; a mirror has the same files, of the same hashes, at its own."""
    wanted = TOOLS / "requirements.txt"
    export = ("export", "--frozen", "--no-default-groups", "--no-emit-project", "--quiet")
    _run(uv, *export, "--python", _base_python(), "--output-file", str(wanted), *chosen)
    _run(uv, "venv", "--allow-existing", "--quiet", "--python", _base_python(), str(VENV))
    python = str(VENV / "bin" / "python")
    _run(
        uv, "pip", "sync", "--require-hashes", "--no-build", "--index-url", index_url(), "--python", python, str(wanted)
    )


def _run(uv: Path, *arguments: str) -> None:
    process = subprocess.Popen(
        [str(uv), *arguments],
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said = []
    for line in process.stdout or ():
        said.append(line)
        if not line.startswith((" + ", " - ", " ~ ")):  # one line a package is more than anybody reads
            print(f"  {line}", end="", flush=True)
    if process.wait() != 0:
        raise SetupError(explained("".join(said)) or f"uv {arguments[0]} failed; its words are above.")


def _environment() -> dict[str, str]:
    """Another virtual environment in use must not be the one installed into; the cache is in the clone if need be."""
    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}}
    kept.update(UV_PYTHON_DOWNLOADS="never", UV_NO_PROGRESS="1")
    if has_system_certificates():
        kept["UV_SYSTEM_CERTS"] = "1"
    if "SSL_CERT_FILE" not in kept and (bundle := kept.get("PIP_CERT") or kept.get("REQUESTS_CA_BUNDLE")):
        kept["SSL_CERT_FILE"] = bundle
    if "UV_CACHE_DIR" not in kept and not _home_is_usable():
        kept.update(UV_CACHE_DIR=str(TOOLS / "cache"), HOME=str(TOOLS))
    return kept


def _home_is_usable() -> bool:
    """Tried and not asked: root may write anywhere, says the system, and then cannot."""
    home = os.environ.get("HOME", "")
    if not home:
        return False
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "uv"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return True
    except OSError:
        return False


def _compile_catalogues() -> None:
    """The translations' .mo files, with Babel, since a fresh machine has no gettext."""
    stale = [
        source
        for source in sorted((ROOT / "locale").glob("*/LC_MESSAGES/*.po"))
        if not (made := source.with_suffix(".mo")).exists() or made.stat().st_mtime < source.stat().st_mtime
    ]
    if not stale:
        return
    command = [str(VENV / "bin" / "python"), "-m", "arrakis.bootstrap.catalogues", *map(str, stale)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"The translations could not be compiled: {done.stderr.strip()}")
