"""The clone's Valkey: loopback with a password, nothing written to disk (messages are hints, DESIGN 5.5).

On loopback and not on a Unix socket, because every client spells a socket's URL another way.
"""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from typing import IO

from arrakis.embedded.errors import EmbeddedError
from arrakis.embedded.processes import die_with_parent, groups_of, signal_quietly, user_of, wait_until


class Valkey:
    def __init__(self, *, binary: Path, folder: Path, uid: int, password: str) -> None:
        self.binary, self.folder, self.uid, self.password = binary, folder, uid, password
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """The running server, not yet answering. Its configuration, with the password, goes by its standard input."""
        process = subprocess.Popen(
            [str(self.binary), "-"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            cwd=self.folder,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
            user=user_of(self.uid),
            group=user_of(self.uid),
            extra_groups=groups_of(self.uid),
        )
        if process.stdin is None:
            raise EmbeddedError("Valkey has no standard input.")
        lines = ("bind 127.0.0.1", f"port {self.port}", f"requirepass {self.password}", 'save ""', "appendonly no")
        try:
            process.stdin.write("\n".join((*lines, "databases 64", "loglevel warning", "")).encode())
            process.stdin.close()
        except BrokenPipeError:
            pass  # it ended at once: its log says why, and the keeper sees it gone
        return process

    def answers(self) -> bool:
        """Whether it is ours that answers: it takes the password."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as probe:
                probe.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while len(answer) < 12 and (piece := probe.recv(64)):
                    answer += piece
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    def move(self) -> None:
        """To another port: somebody took the one it had."""
        self.port = _free_port()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                return
            signal_quietly(process.pid, number)
            wait_until(lambda: process.poll() is not None, 5)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
