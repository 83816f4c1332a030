"""The verbs of supervisor.sh: what keeps one label's engine up on this machine. Standard library of Python 3.8.

Locks say what runs, not pid files: the kernel drops them however a process ends, so a second `start` or `fetch`, a
reboot and a kill -9 all find the truth. In the label's folder:

    state.json  engine.json  plan.json  port  desired  (running | stopped | failed)
    run/ keeper.lock keeper.pid fetch.lock verb.lock state.lock      log/ engine.log engine.log.1 fetch.log      model/
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import keeper
import label
import statefile

BASE = Path(__file__).resolve().parent
HEARTBEAT_SECONDS = 3.0
LOOK_SECONDS = 0.25
STOP_SECONDS = 40.0
TOKEN_BYTES = 4096
LOG_LINES = 1000
LOG_BYTES = 256 * 1024
# Below the range that outgoing connections take their ports from, so that none takes the engine's between its runs.
PORTS = range(20000, 30000)


def init() -> None:
    for name in ("run", "log", "model"):
        (BASE / name).mkdir(mode=0o700, exist_ok=True)
    folder = os.open(BASE.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # two labels set up at once must not choose one port
        if not (BASE / "port").exists():
            _write(BASE / "port", str(_free_port()))
    finally:
        os.close(folder)
    port = int((BASE / "port").read_text(encoding="utf-8"))
    statefile.update(BASE, engine_port=port)
    print(json.dumps({"port": port, "base": str(BASE)}), flush=True)


def _free_port() -> int:
    taken = {path.read_text(encoding="utf-8").strip() for path in BASE.parent.glob("*/port")}
    for port in random.sample(PORTS, len(PORTS)):
        if str(port) not in taken and keeper.is_free(port):
            return port
    raise SystemExit("no free port")


def fetch() -> None:
    token = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(TOKEN_BYTES).strip()
    if statefile.is_held(BASE / "run" / "fetch.lock"):
        return
    statefile.update(BASE, stage="downloading", error_code=None)
    with (BASE / "log" / "fetch.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-E", "-s", str(BASE / "fetch.py")],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    assert child.stdin is not None
    child.stdin.write(token + b"\n")
    child.stdin.close()
    _wait_for("fetch.lock", lambda: child.poll() is not None)


def start() -> None:
    with _one_verb():
        _start()


def _start() -> None:
    if statefile.is_held(BASE / "run" / "keeper.lock"):
        if _desired() == "running":
            return
        _stop()  # it has just given up and is on its way out
    _write(BASE / "desired", "running")
    statefile.update(BASE, engine_state="starting", exit_code=None, restarts=0, error_code=None)
    _spawn_keeper()


def _spawn_keeper() -> None:
    with (BASE / "log" / "keeper.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-E", "-s", str(BASE / "supervisor.py"), "keep"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _wait_for("keeper.lock", lambda: child.poll() is not None)


def _wait_for(lock: str, ended: Any) -> None:
    """Until the process that was just begun holds its lock, or has ended already (it was short, or not needed)."""
    end = time.monotonic() + 10
    while not statefile.is_held(BASE / "run" / lock) and not ended() and time.monotonic() < end:
        time.sleep(0.02)


def stop() -> None:
    with _one_verb():
        _stop()


def _stop() -> None:
    _write(BASE / "desired", "stopped")
    end = time.monotonic() + STOP_SECONDS
    while statefile.is_held(BASE / "run" / "keeper.lock"):
        late = time.monotonic() > end
        _signal_keeper(signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.05)
    label.kill_all(lambda: label.marked(keeper.ENGINE_VARIABLE, BASE.name))
    statefile.update(BASE, engine_state="stopped")


def _signal_keeper(number: int) -> None:
    try:
        pid, started = json.loads((BASE / "run" / "keeper.pid").read_text(encoding="utf-8"))
        if label.start_time(pid) == started:
            os.kill(pid, number)
    except (OSError, ValueError, TypeError):
        return


def restart() -> None:
    with _one_verb():
        _stop()
        _start()


def _one_verb() -> Any:
    """start, stop and restart take turns."""
    file = (BASE / "run" / "verb.lock").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def compose() -> dict[str, Any]:
    """The state, corrected by what can be seen to be untrue: a keeper or a download that is no longer there."""
    state = statefile.read(BASE)
    if _desired() == "running" and not statefile.is_held(BASE / "run" / "keeper.lock"):
        state["engine_state"] = "crashed"
    if state["stage"] == "downloading" and not statefile.is_held(BASE / "run" / "fetch.lock"):
        state = statefile.read(BASE)  # it may have ended between the two looks
        if state["stage"] == "downloading":
            state.update(stage="failed", error_code="fetch_crashed")
    return state


def _desired() -> str:
    try:
        return (BASE / "desired").read_text(encoding="utf-8").strip()
    except OSError:
        return "stopped"


def status() -> None:
    print(statefile.line(compose()), flush=True)


def watch() -> None:
    """Runs for as long as the tunnel listens, and brings the keeper back if that was killed or the machine rebooted."""
    listener = select.poll()
    listener.register(1, select.POLLERR | select.POLLHUP)
    shown: dict[str, Any] = {}
    said_at = 0.0
    while BASE.is_dir():
        state = compose()
        if state != shown or time.monotonic() - said_at >= HEARTBEAT_SECONDS:
            print(statefile.line(state), flush=True)
            shown, said_at = state, time.monotonic()
        if state["engine_state"] == "crashed" and _desired() == "running":
            _revive()
        if listener.poll(LOOK_SECONDS * 1000):
            return


def _revive() -> None:
    with _one_verb():
        if _desired() == "running" and not statefile.is_held(BASE / "run" / "keeper.lock"):
            _spawn_keeper()


def log(lines: int) -> None:
    """The last lines, from the older file too when the newer one was cut a moment ago."""
    text = b""
    for name in ("engine.log.1", "engine.log"):
        try:
            with (BASE / "log" / name).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
                text += file.read(LOG_BYTES)
        except OSError:
            continue
    kept = text[-LOG_BYTES:].splitlines(keepends=True)[-min(max(lines, 1), LOG_LINES) :]
    sys.stdout.buffer.write(b"".join(kept))


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def main(arguments: list[str]) -> None:
    os.umask(0o077)
    verb = arguments[0] if arguments else ""
    verbs = {"init": init, "fetch": fetch, "start": start, "stop": stop, "restart": restart, "status": status}
    if verb == "log":
        log(int(arguments[1]) if len(arguments) > 1 else 200)
    elif verb == "watch":
        try:
            watch()
        except BrokenPipeError:
            os._exit(0)
    elif verb == "keep":
        keeper.Keeper(BASE).run()
    elif verb in verbs:
        verbs[verb]()
    else:
        raise SystemExit(f"no such verb: {verb}")


if __name__ == "__main__":
    main(sys.argv[1:])
