"""This machine as a rented bare host: `python -m arrakis.demo.host --dir D --port P`.

Makes ready what the machine's own user needs, becomes that user (root: for good; anybody else already is), and hands
over to arrakis.demo.rented: an SSH server on loopback that stands for a host where `python3` and `llama-server` are
installed. In D, which is that user's:

    home/  the HOME of every login, home/.ssh/authorized_keys says whose      bin/  python3, llama-server
    host_key  host.json {port, user, host_key, fingerprint}, there when logins are taken, also printed      lock
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import NoReturn

from arrakis.demo import software
from arrakis.demo.software import NoSoftware, Software
from arrakis.embedded.clone import machine_uid
from arrakis.embedded.errors import EmbeddedError

_PATH = "/usr/local/bin:/usr/bin:/bin"
_HAND_OVER = (
    "import json, sys; sys.path[:0] = json.loads(sys.argv[1]);"
    " from arrakis.demo.rented.start import main; main(sys.argv[2])"
)
_RUN_SCRIPT = (
    "import runpy, sys; sys.path.insert(0, sys.argv[1]); sys.argv[:] = sys.argv[2:];"
    " runpy.run_path(sys.argv[0], run_name='__main__')"
)


class HostError(Exception):
    """The host cannot be started; the message says why and what to do."""


def main() -> NoReturn:
    arguments = _arguments()
    parent = os.getppid() if arguments.parent_death else None
    try:
        uid = machine_uid()
        ready = software.for_user(uid)
        folder = own_folder(arguments.dir, uid)
    except (HostError, NoSoftware, EmbeddedError, OSError) as error:
        sys.exit(str(error))
    become(uid)
    install(ready, folder / "bin")
    settings = {"folder": str(folder), "port": arguments.port, "authorized_key": arguments.authorized_key}
    hand_over(ready, folder, {**settings, "parent": parent})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m arrakis.demo.host", description="A machine to rent, on loopback.")
    parser.add_argument("--dir", type=Path, required=True, help="its folder; made if it is missing")
    parser.add_argument("--port", type=int, required=True, help="of 127.0.0.1; 0 takes any that is free")
    parser.add_argument("--authorized-key", metavar="LINE", help="an authorized_keys line of whoever owns the machine")
    parser.add_argument("--parent-death", action="store_true", help="end when the process that started it does")
    return parser.parse_args()


def own_folder(path: Path, uid: int) -> Path:
    """`path` as a folder of user `uid`, who can get there. Nothing inside is touched: root follows no links there."""
    path = Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow the last part)
    path = path.parent.resolve() / path.name
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise HostError(f"{path} cannot be made: {error.strerror}.") from error
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid not in {uid, os.geteuid()}:
        raise HostError(f"{path} is not a folder of ours; remove it, or give another.")
    if uid != os.geteuid():
        closed = next((parent for parent in path.parents if not parent.stat().st_mode & 0o001), None)
        if closed is not None:
            raise HostError(f"The machine's user (uid {uid}) cannot get to {path}: {closed} is closed to others.")
        os.chown(path, uid, uid, follow_symlinks=False)
    return path


def become(uid: int) -> None:
    """User `uid` and nobody else, with no way back."""
    if os.geteuid() == uid:
        return
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def install(ready: Software, folder: Path) -> None:
    """`python3` and `llama-server`, first on the PATH of every login."""
    os.umask(0o077)
    folder.mkdir(mode=0o700, exist_ok=True)
    python = shlex.quote(str(ready.python))
    exports = "".join(f"{name}={shlex.quote(value)}; export {name}\n" for name, value in ready.environment.items())
    _script(folder / "python3", f'{exports}exec {python} "$@"\n')
    # One folder holds xllamacpp and, where it is not a copy, all else that is installed with it.
    packages, launcher = next(path for path in ready.paths if _holds_llama(path)), str(ready.launcher)
    script = " ".join(shlex.quote(word) for word in ("-I", "-S", "-c", _RUN_SCRIPT, packages, launcher))
    _script(folder / "llama-server", f'{exports}exec {python} {script} "$@"\n')


def _holds_llama(path: str) -> bool:
    return (Path(path) / "xllamacpp").is_dir()


def _script(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    draft.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    draft.chmod(0o700)
    draft.replace(path)


def hand_over(ready: Software, folder: Path, settings: dict[str, object]) -> NoReturn:
    """The same process, another program: with none of our environment, whose secrets a customer could read."""
    environment = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(folder / "home"), **ready.environment}
    program = [str(ready.python), "-I", "-S", "-c", _HAND_OVER, json.dumps(ready.paths), json.dumps(settings)]
    os.chdir(folder)
    sys.stdout.flush()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.execve(program[0], program, environment)  # noqa: S606


if __name__ == "__main__":
    main()
