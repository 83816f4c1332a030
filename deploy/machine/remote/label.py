"""What a label has on this machine: its folder, its processes, its lines in authorized_keys.

Run from stdin by the control plane (`python3 -E -s - VERB LABEL < label.py`), so that it works where nothing is
installed, or where what was installed has been tampered with. Prints one line of JSON. Standard library of Python 3.8.

    claim LABEL LINE          mkdir is the lock; {"created": bool}; LINE is the admin key's line
    exists LABEL              {"exists": bool}
    labels                    {"labels": [...]}
    key LABEL KIND LINE...    makes the lines of that kind exactly these
    unkey LABEL KIND          removes them, and ends the sessions that carry the kind's mark
    wipe LABEL                {"left": [...]}, empty when nothing of the label is here any more
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LABEL = re.compile(r"arrakis-[a-z0-9][a-z0-9-]{0,100}\Z")
LABEL_VARIABLE = "ARRAKIS_LABEL"
KILL_SECONDS = 15.0


def parent() -> Path:
    return Path("/var/lib/arrakis") if os.geteuid() == 0 else Path(os.environ["HOME"]) / "arrakis"


def folder(label: str) -> Path:
    if not LABEL.match(label):
        raise SystemExit("not a label")
    return parent() / label


# ------------------------------------------------------------------ processes


def start_time(pid: int) -> int:
    """Clock ticks from boot to the process's start, 0 when it is gone: with the pid it names a process for good."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def marked(variable: str, value: str) -> Iterator[int]:
    """Processes whose environment at their start held variable=value, ourselves and those above us left out."""
    wanted = f"{variable}={value}".encode()
    spared = _ancestors()
    for entry in (path.name for path in Path("/proc").iterdir()):
        if not entry.isdigit() or int(entry) in spared:
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            yield int(entry)


def _ancestors() -> set[int]:
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def kill_all(find: Callable[[], Iterator[int]], seconds: float = KILL_SECONDS) -> list[int]:
    """SIGKILL what `find` yields until it yields nothing; what is left after `seconds` is returned.

    Repeated, because a process may have made another between the look and the blow.
    """
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in find() if start_time(pid)]
        if not left or time.monotonic() > end:
            return left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.02)


# ------------------------------------------------------------------ key lines


def mark(label: str, kind: str) -> str:
    return f"arrakis:{label}:{kind}"


def edit_keys(change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Rewrite authorized_keys as `change` says, whole or not at all, one writer at a time."""
    place = Path(os.environ["HOME"]) / ".ssh"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = place / "authorized_keys"
        before = path.read_bytes().splitlines() if path.exists() else []
        after = change(list(before))
        if after == before and path.exists():
            return
        part = place / ".authorized_keys.part"
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(b"".join(line + b"\n" for line in after))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        os.close(lock)


def is_ours(line: bytes, label: str, kind: str | None) -> bool:
    """Whether the line's comment marks it as this label's (and that kind's, or one below it: customer:ID)."""
    words = line.split()
    if not words:
        return False
    comment = words[-1].decode("utf-8", errors="replace")
    if kind is None:
        return comment.startswith(mark(label, ""))
    return comment == mark(label, kind) or comment.startswith(mark(label, kind) + ":")


def set_keys(label: str, kind: str | None, lines: list[str]) -> None:
    new = [line.encode() for line in lines]
    if any(b"\n" in line or b"\r" in line or not is_ours(line, label, kind) for line in new):
        raise SystemExit("not a line of that kind")
    edit_keys(lambda before: [line for line in before if not is_ours(line, label, kind)] + new)


def has_keys(label: str) -> bool:
    try:
        lines = (Path(os.environ["HOME"]) / ".ssh" / "authorized_keys").read_bytes().splitlines()
    except OSError:
        return False
    return any(is_ours(line, label, None) for line in lines)


# ------------------------------------------------------------------ verbs


def claim(label: str, line: str) -> dict[str, object]:
    base = folder(label)
    parent().mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        base.mkdir(mode=0o700)
        created = True
    except FileExistsError:
        created = False
    set_keys(label, "admin", [line])
    return {"created": created}


def exists(label: str) -> bool:
    return os.path.lexists(folder(label)) or has_keys(label) or any(_of_label(label))


def labels() -> list[str]:
    try:
        return sorted(path.name for path in parent().iterdir() if LABEL.match(path.name))
    except OSError:
        return []


def unkey(label: str, kind: str) -> dict[str, object]:
    set_keys(label, kind, [])
    return {"left": kill_all(lambda: marked("ARRAKIS_SESSION", mark(label, kind)))}


def wipe(label: str) -> dict[str, object]:
    """The admin key goes last: until everything else is gone the control plane can come back and go on."""
    base = folder(label)
    for kind in ("customer", "tunnel"):
        set_keys(label, kind, [])
    _remove(base)  # first the files, so that nothing can be started from them again
    left: list[object] = list(kill_all(lambda: _of_label(label)))
    _remove(base)
    if os.path.lexists(base):
        left.append("folder")
    if not left:
        set_keys(label, None, [])
        _tidy()
        left = ["reappeared"] if exists(label) else []
    return {"left": left}


def _of_label(label: str) -> Iterator[int]:
    yield from marked(LABEL_VARIABLE, label)
    for kind in ("customer", "tunnel"):
        yield from marked("ARRAKIS_SESSION", mark(label, kind))


def _remove(base: Path) -> None:
    if base.is_symlink() or base.is_file():
        base.unlink()
    else:
        shutil.rmtree(base, ignore_errors=True)


def _tidy() -> None:
    try:
        parent().rmdir()
    except OSError:
        return  # other labels are still there


def main(arguments: list[str]) -> None:
    os.umask(0o077)
    verb, rest = arguments[0], arguments[1:]
    if verb == "claim":
        answer = claim(rest[0], rest[1])
    elif verb == "exists":
        answer = {"exists": exists(rest[0])}
    elif verb == "labels":
        answer = {"labels": labels()}
    elif verb == "key":
        set_keys(rest[0], rest[1], rest[2:])
        answer = {"left": []}
    elif verb == "unkey":
        answer = unkey(rest[0], rest[1])
    elif verb == "wipe":
        answer = wipe(rest[0])
    else:
        raise SystemExit("no such verb")
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
