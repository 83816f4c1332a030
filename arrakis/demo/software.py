"""A Python and packages that the demo machine's user can reach, also where ours lie in a private folder.

As root we are often run by an interpreter in /root, which nobody else can enter. What is needed of it is linked or
copied once to where the clone's services keep theirs; no permission of any folder is changed for it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from arrakis.embedded.clone import THIS_CLONE, data_home, reachable_by_others

_PACKAGES = ("asyncssh", "xllamacpp")
_OURS = ("arrakis/__init__.py", "arrakis/demo/__init__.py", "arrakis/demo/llama_server.py", "arrakis/demo/rented")
_LAUNCHER = "arrakis/demo/llama_server.py"
_NEEDED_OF_PYTHON = "import asyncio, ctypes, hashlib, http.client, lzma, ssl, zlib"
_UNNEEDED = shutil.ignore_patterns("test", "tests", "site-packages", "config-*", "idlelib", "tkinter", "turtledemo")
_LIBRARY_PATH = "LD_LIBRARY_PATH"


class NoSoftware(Exception):
    """The machine's user cannot be given a Python; the message says why."""


@dataclass(frozen=True)
class Software:
    """`environment` is what `python` needs to start; `paths` are for its sys.path."""

    python: Path
    environment: dict[str, str]
    paths: list[str]
    launcher: Path


def for_user(uid: int) -> Software:
    """What user `uid` can run. Copies only when we are root and that user is not. Raises NoSoftware."""
    python = Path(sys.executable).resolve()
    if uid == os.geteuid():
        installed = [str(distribution(name).locate_file("")) for name in _PACKAGES]
        needed = {name: value for name, value in os.environ.items() if name == _LIBRARY_PATH}
        return Software(python, needed, [str(THIS_CLONE), *dict.fromkeys(installed)], THIS_CLONE / _LAUNCHER)
    shelf = data_home(THIS_CLONE) / "software"
    shelf.mkdir(mode=0o755, exist_ok=True)
    reached, environment = _python(python, uid, shelf)
    ours = _ours(shelf)
    paths = [str(ours), *dict.fromkeys(str(_package(found, shelf)) for found in _needed(_PACKAGES))]
    return Software(reached, environment, paths, ours / _LAUNCHER)


# ------------------------------------------------------------------ the interpreter


def _python(python: Path, uid: int, shelf: Path) -> tuple[Path, dict[str, str]]:
    if _starts(python, uid, {}):
        return python, {}
    prefix, library = Path(sys.base_prefix).resolve(), Path(os.__file__).resolve().parent
    if not (python.is_relative_to(prefix) and library.is_relative_to(prefix)):
        raise NoSoftware(f"{python} and its library in {library} are not readable by other users, nor of one folder.")
    name = f"python-{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}-{_short(str(prefix))}"

    def fill(draft: Path) -> None:
        _put(python, draft / python.relative_to(prefix))
        shutil.copytree(library, draft / library.relative_to(prefix), ignore=_UNNEEDED, copy_function=_put)
        for shared in prefix.glob("lib/*.so*"):
            if shared.is_file():
                _put(shared, draft / "lib" / shared.name)

    copied = _kept(shelf / name, fill)
    reached = copied / python.relative_to(prefix)
    for environment in ({}, {_LIBRARY_PATH: str(copied / "lib")}):
        if _starts(reached, uid, environment):
            return reached, environment
    raise NoSoftware(f"The copy of {python} in {copied} does not start. Run the demo as an ordinary user, not as root.")


def _starts(python: Path, uid: int, environment: dict[str, str]) -> bool:
    command = [str(python), "-I", "-S", "-c", _NEEDED_OF_PYTHON]
    try:
        tried = subprocess.run(
            command, user=uid, group=uid, extra_groups=[], env=environment, cwd="/", capture_output=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


# ------------------------------------------------------------------ packages


def _needed(names: tuple[str, ...]) -> Iterator[Distribution]:
    """These and what they need, as it is installed here."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if name in names:
                raise NoSoftware(f"{name} is not installed here; run `make venv`.") from None
            continue  # needed elsewhere, on another system or Python
        yield found
        wanted = [text for text in found.requires or [] if "extra ==" not in text]
        waiting += [re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in wanted]


def _package(found: Distribution, shelf: Path) -> Path:
    """The folder to import it from."""
    home = Path(str(found.locate_file("")))
    tops = {Path(file).parts[0] for file in found.files or []}
    sources = [home / top for top in sorted(tops) if top != ".." and not top.endswith((".dist-info", ".pth"))]
    if all(reachable_by_others(path) for source in sources for path in (source, *source.rglob("*"))):
        return home

    def fill(draft: Path) -> None:
        for source in sources:
            _put_all(source, draft / source.name)

    return _kept(shelf / f"{found.name}-{found.version}-{_short(str(home))}", fill)


def _ours(shelf: Path) -> Path:
    """Our own code for that user, by its content: a change makes another copy."""
    parts = [THIS_CLONE / part for part in _OURS]
    files = sorted(file for part in parts for file in ([part] if part.is_file() else part.glob("*.py")))
    digest = sha256(b"".join(os.fsencode(file.name) + b"\0" + file.read_bytes() + b"\0" for file in files)).hexdigest()

    def fill(draft: Path) -> None:
        for file in files:
            target = draft / file.relative_to(THIS_CLONE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            target.chmod(0o644)

    return _kept(shelf / f"machine-{digest[:16]}", fill)


# ------------------------------------------------------------------ copies


def _kept(target: Path, fill: Callable[[Path], None]) -> Path:
    """`target`, filled beside it and renamed: never half, and whoever comes second takes the first's."""
    if target.is_dir():
        return target
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        fill(draft)
        for folder in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        draft.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _put_all(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_put)
    else:
        _put(source, target)


def _put(source: str | Path, target: str | Path) -> None:
    """The same file by another name where all may read it, else a copy that all may. Costs no room, mostly."""
    real, target = Path(source).resolve(), Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(real.stat().st_mode)
    wanted = 0o755 if mode & 0o100 else 0o644
    if mode & 0o777 == wanted:
        try:
            os.link(real, target)
            return
        except OSError:  # another file system, or one that knows no links
            pass
    shutil.copy2(real, target)
    target.chmod(wanted)


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]
