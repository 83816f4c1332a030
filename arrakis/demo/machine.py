"""This machine as the demo's rentable host: its folder, our key to it, and what it tells when it is up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import asyncssh

from arrakis.embedded.clone import THIS_CLONE, data_home, private_folder
from arrakis.embedded.files import read_json, write_private


@dataclass(frozen=True)
class Machine:
    """`command` is the arguments that Python runs it with; `private_key` opens it to the control plane."""

    folder: Path
    port: int
    private_key: str
    public_key: str

    @property
    def command(self) -> list[str]:
        where = ["--dir", str(self.folder), "--port", str(self.port)]
        return ["-m", "arrakis.demo.host", *where, "--authorized-key", self.public_key, "--parent-death"]

    @property
    def told(self) -> dict[str, str]:
        """{user, host_key, ...}: what it wrote when it began to take logins; empty before."""
        told = read_json(self.folder / "host.json")
        return told if told.get("port") == self.port else {}


def machine_folder() -> Path:
    """Where the machine's user can reach it, whoever runs the demo."""
    return data_home(THIS_CLONE) / "machine"


def prepare(port: int) -> Machine:
    """The machine to be at `port`, with a key of ours that is made once per clone."""
    folder = machine_folder()
    if folder.is_dir():
        (folder / "host.json").unlink(missing_ok=True)
    key = _key(private_folder() / "demo-machine-key")
    return Machine(folder, port, key.export_private_key().decode(), key.export_public_key().decode().strip())


def _key(path: Path) -> asyncssh.SSHKey:
    if not path.exists():
        made = asyncssh.generate_private_key("ssh-ed25519", comment="arrakis-demo")
        write_private(path, made.export_private_key().decode())
    return asyncssh.read_private_key(path)
