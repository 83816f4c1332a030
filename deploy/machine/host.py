"""What Arrakis does on a machine. Every function opens one connection, does one thing, and may be called again.

All are synchronous, bounded in time, and raise only deploy.machine.errors. A label is `arrakis-<installation>-<id>`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from deploy.engines.base import BASE, PORT, EngineSpec
from deploy.machine import keys as public_keys
from deploy.machine.errors import CommandFailed, MachineProblem
from deploy.machine.logs import MAX_BYTES, cleaned
from deploy.machine.ssh import Result, Session, Target, connect
from deploy.machine.status import Status, parse_status

REMOTE: Final = Path(__file__).resolve().parent / "remote"
SUPERVISOR: Final = ("supervisor.sh", "supervisor.py", "keeper.py", "label.py", "fetch.py", "statefile.py")
RESTART_LIMIT: Final = 5
BACKOFF_SECONDS: Final = 1.0
VERB_SECONDS: Final = 60
WIPE_SECONDS: Final = 60
PYTHONS: Final = "python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3"
NO_BASE, NO_PYTHON, NOT_FOUND = 66, 69, 127
LABEL: Final = re.compile(r"arrakis-[a-z0-9][a-z0-9-]{0,100}\Z")
KEY_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi names it; `driver` is its version as text, `compute_capability` as "9.0" or None."""

    name: str
    memory_mib: int
    driver: str
    compute_capability: str | None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is there before anything is installed. Memory and disk in bytes; `python` is "3.11.7" or None."""

    os: str
    arch: str
    cpu_count: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: tuple[Gpu, ...]
    python: str | None


@dataclass(frozen=True, slots=True)
class FetchFile:
    """One file of a repository. `sha256` for files kept in large-file storage, `git_sha1` (blob id) for the others."""

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to download: from `endpoint` (as the MACHINE reaches it), `repo_id` at `revision` (a commit), `files`."""

    endpoint: str
    repo_id: str
    revision: str
    files: tuple[FetchFile, ...]


def claim(target: Target, label: str, public_key: str) -> bool:
    """Take the label on the machine and let `public_key` (the machine's own admin key) log in.

    The folder's mkdir is the lock: of any number of calls at once exactly one returns True (created), the others and
    every later one False (it was there already). The key is there after either.
    """
    line = public_keys.admin_line(public_key, label)
    with connect(target) as session:
        return _flag(_label(session, "claim", label, line), "created")


def exists(target: Target, label: str) -> bool:
    """Whether anything of that label is there: its folder, a key line or a process."""
    with connect(target) as session:
        return _flag(_label(session, "exists", label), "exists")


def list_labels(target: Target) -> list[str]:
    """Every label of any installation that has a folder there, sorted."""
    with connect(target) as session:
        found = _label(session, "labels").get("labels")
    if not isinstance(found, list):
        raise MachineProblem("answer_garbled", verb="labels")
    return sorted(name for name in found if isinstance(name, str) and LABEL.match(name))


def check(target: Target) -> MachineFacts:
    """Look before installing. Needs only sh there."""
    with connect(target) as session:
        result = session.run("sh -s", stdin=(REMOTE / "facts.sh").read_bytes(), timeout=30, max_output=64 * 1024)
    if result.exit_code != 0:
        raise _failed("check", result)
    return parse_facts(result.stdout)


def install(target: Target, label: str, engine: EngineSpec, tunnel_public_key: str) -> int:
    """Put the supervisor there, write the engine's command, let the tunnel's key in. Returns the engine's port.

    Called again: the same port, the new command. The tunnel's key may forward to 127.0.0.1:port and read the state
    stream, nothing else. MachineProblem("no_base") when the label was not claimed, "python_missing" without Python 3.8.
    """
    with connect(target) as session:
        base = _base(session, label)
        for name in SUPERVISOR:
            session.put(f"{base}/{name}", (REMOTE / name).read_bytes(), 0o700)
        port = _port(_verb(session, base, "init"))
        session.put(f"{base}/engine.json", _engine(engine, base, port))
        line = public_keys.tunnel_line(tunnel_public_key, label, base=base, port=port)
        _label(session, "key", label, "tunnel", line)
        return port


def start_fetch(target: Target, label: str, plan: FetchPlan, token: str | None = None) -> None:
    """Begin, or go on with, the download in the background. `token` goes by stdin only. Running already: no change."""
    with connect(target) as session:
        base = _base(session, label)
        session.put(f"{base}/plan.json", json.dumps(asdict(plan)).encode())
        _verb(session, base, "fetch", stdin=(token or "").encode())


def start_engine(target: Target, label: str) -> None:
    """Keep the engine up from now on. Running already: no change."""
    _one_verb(target, label, "start")


def stop_engine(target: Target, label: str) -> None:
    """End the engine with its whole process group, and do not restart it."""
    _one_verb(target, label, "stop")


def restart_engine(target: Target, label: str) -> None:
    """Stop and start, with a fresh count of restarts. The download stays."""
    _one_verb(target, label, "restart")


def read_status(target: Target, label: str) -> Status:
    """The state now. MachineProblem("status_garbled") for nonsense, "no_base" when nothing is installed."""
    return parse_status(_one_verb(target, label, "status").stdout.strip())


def read_log(target: Target, label: str, lines: int = 200) -> str:
    """The engine's last lines: at most 1,000 and 256 KiB, no control characters or terminal codes, keys blanked."""
    with connect(target) as session:
        base = _base(session, label)
        return cleaned(_verb(session, base, "log", str(lines), max_output=MAX_BYTES).stdout)


def install_customer_keys(target: Target, label: str, keys: Mapping[str, str]) -> None:
    """Make the customer's keys on the machine exactly these: id -> public key as pasted (id: letters, digits, `-`)."""
    if not all(KEY_ID.match(key_id) for key_id in keys):
        raise ValueError("an id of a customer's key is letters, digits and hyphens")
    lines = [public_keys.customer_line(key, label, key_id) for key_id, key in sorted(keys.items())]
    with connect(target) as session:
        _label(session, "key", label, "customer", *lines)


def remove_customer_keys(target: Target, label: str) -> None:
    """Take every customer key of the label away, and end the sessions they opened where the machine marks them."""
    with connect(target) as session:
        _label(session, "unkey", label, "customer")


def wipe(target: Target, label: str) -> None:
    """Leave nothing: no process, folder or key of the label; returns only after looking again. Absent is success.

    MachineProblem("wipe_incomplete", left=[...]) when something stays.
    """
    with connect(target) as session:
        left = _label(session, "wipe", label, timeout=WIPE_SECONDS).get("left")
    if left != []:
        raise MachineProblem("wipe_incomplete", left=[str(item)[:40] for item in left][:20] if left else [])


def parse_facts(text: bytes) -> MachineFacts:
    """The name=value lines of remote/facts.sh, from a machine that may say anything."""
    rows = [line.partition("=") for line in text.decode("utf-8", errors="replace").splitlines()]
    one = {name: value.strip()[:200] for name, _, value in rows if name != "gpu"}
    memory = 1024 * _whole(one, "memory_kib")
    limit = _whole(one, "memory_limit") if one.get("memory_limit") else memory
    return MachineFacts(
        os=_plain(one.get("os", "")),
        arch=_plain(one.get("arch", "")),
        cpu_count=_whole(one, "cpu_count"),
        memory_bytes=min(memory, limit),
        disk_free_bytes=1024 * _whole(one, "disk_free_kib"),
        gpus=tuple(_gpu(value) for name, _, value in rows if name == "gpu")[:64],
        python=_plain(one.get("python", "")) or None,
    )


def _gpu(row: str) -> Gpu:
    cells = [cell.strip()[:100] for cell in row.split(",", 3)]
    if len(cells) != 4 or not cells[0].isdigit():
        raise MachineProblem("facts_garbled", problem="gpu")
    memory, driver, capability, name = cells
    return Gpu(_plain(name), int(memory), _plain(driver), capability if re.fullmatch(r"\d+\.\d+", capability) else None)


def _whole(facts: Mapping[str, str], name: str) -> int:
    value = facts.get(name, "")
    if not value.isdigit() or len(value) > 18:
        raise MachineProblem("facts_garbled", problem=name)
    return int(value)


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isprintable())


def _label(session: Session, verb: str, *arguments: str, timeout: float = VERB_SECONDS) -> dict[str, Any]:
    """Run a verb of remote/label.py from stdin: what lies on the machine may be missing, or tampered with."""
    if arguments and not LABEL.match(arguments[0]):
        raise ValueError(f"{arguments[0]!r} is not a label")
    words = " ".join(shlex.quote(word) for word in (verb, *arguments))
    command = (
        f'for p in {PYTHONS}; do command -v "$p" >/dev/null 2>&1 && exec "$p" -E -s - {words}; done; exit {NO_PYTHON}'
    )
    result = session.run(command, stdin=(REMOTE / "label.py").read_bytes(), timeout=timeout, max_output=256 * 1024)
    return _answer(verb, result)


def _answer(verb: str, result: Result) -> dict[str, Any]:
    if result.exit_code != 0:
        raise _failed(verb, result)
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError) as error:
        raise MachineProblem("answer_garbled", verb=verb) from error
    if not isinstance(answer, dict):
        raise MachineProblem("answer_garbled", verb=verb)
    return answer


def _flag(answer: Mapping[str, Any], name: str) -> bool:
    value = answer.get(name)
    if not isinstance(value, bool):
        raise MachineProblem("answer_garbled", verb=name)
    return value


def _base(session: Session, label: str) -> str:
    """The label's folder, as the machine names it."""
    if not LABEL.match(label):
        raise ValueError(f"{label!r} is not a label")
    command = (
        f'if [ "$(id -u)" = 0 ]; then b=/var/lib/arrakis/{label}; else b=$HOME/arrakis/{label}; fi; '
        f'[ -d "$b" ] && printf %s "$b" || exit {NO_BASE}'
    )
    result = session.run(command, timeout=30, max_output=4096)
    base = result.stdout.decode("utf-8", errors="replace")
    if result.exit_code != 0:
        raise _failed("base", result)
    if not base.startswith("/") or not base.isprintable():
        raise MachineProblem("answer_garbled", verb="base")
    return base


def _one_verb(target: Target, label: str, verb: str) -> Result:
    with connect(target) as session:
        return _verb(session, _base(session, label), verb)


def _verb(session: Session, base: str, *words: str, stdin: bytes | None = None, max_output: int = 64 * 1024) -> Result:
    command = " ".join(shlex.quote(word) for word in (f"{base}/supervisor.sh", *words))
    result = session.run(command, stdin=stdin, timeout=VERB_SECONDS, max_output=max_output)
    if result.exit_code != 0:
        raise _failed(words[0], result)
    return result


def _failed(verb: str, result: Result) -> MachineProblem | CommandFailed:
    if result.exit_code == NO_PYTHON:
        return MachineProblem("python_missing")
    if result.exit_code in {NO_BASE, NOT_FOUND, 126}:
        return MachineProblem("no_base")
    return CommandFailed("command_failed", verb=verb, exit_code=result.exit_code, detail=cleaned(result.stderr)[-500:])


def _port(result: Result) -> int:
    port = _answer("init", result).get("port")
    if type(port) is not int or not 1024 <= port <= 65535:
        raise MachineProblem("answer_garbled", verb="init")
    return port


def _engine(engine: EngineSpec, base: str, port: int) -> bytes:
    def filled(argument: str) -> str:
        return argument.replace(PORT, str(port)).replace(BASE, base)

    return json.dumps(
        {
            "key": engine.key,
            "argv": [filled(argument) for argument in engine.command],
            "env": {name: filled(value) for name, value in engine.env.items()},
            "health_path": engine.health_path,
            "restart_limit": RESTART_LIMIT,
            "backoff_seconds": BACKOFF_SECONDS,
        }
    ).encode()
