"""The whole path of deploy.machine.host once more, over a real OpenSSH server as root."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from deploy.machine import host
from tests.demo.fixtures import RunningHost, reachable_folder
from tests.deploy.machine import test_host as path
from tests.deploy.machine.place import wait

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(SSHD is None, reason="no sshd here: apt-get install openssh-server"),
    pytest.mark.skipif(os.geteuid() != 0, reason="sshd is started as root"),
]


class OpenSsh(RunningHost):
    """sshd on a port of the loopback; root's HOME is a folder of ours, so that root's own keys are left alone."""

    marks = True

    def start(self) -> RunningHost:
        self.keys.parent.mkdir(parents=True, mode=0o700)
        self.keys.write_text(path.public(self.private_key))
        self.keys.chmod(0o600)
        self.host_private_key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_private_key.write_private_key(self.folder / "host_key")
        (self.folder / "host_key").chmod(0o600)
        Path("/run/sshd").mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.told = {"port": port, "user": "root", "host_key": path.public(self.host_private_key).strip()}
        config = self.folder / "sshd_config"
        config.write_text(self.config())
        self.process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE, text=True)
        wait("sshd's port", self.listens)
        return self

    def config(self) -> str:
        search = self.environment["PATH"]
        return f"""
Port {self.port}
ListenAddress 127.0.0.1
HostKey {self.folder}/host_key
PidFile none
AuthorizedKeysFile {self.keys}
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
PermitUserEnvironment {"yes" if self.marks else "no"}
SetEnv HOME={self.home} PATH={search}
Subsystem sftp internal-sftp
"""

    def listens(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()[1]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="module")
def search_path(demo_host: RunningHost) -> str:
    """Where the demo's machine has its llama-server."""

    async def look() -> str:
        async with demo_host.connect() as connection:
            return str((await connection.run("echo $PATH")).stdout).strip()

    return asyncio.run(look())


def running(search: str, *, marks: bool) -> Iterator[RunningHost]:
    with reachable_folder() as folder:
        server = OpenSsh(folder, environment={"PATH": search})
        server.marks = marks
        with server:
            yield server
            host.wipe(server.target, path.LABEL)


@pytest.fixture
def machine(search_path: str) -> Iterator[RunningHost]:
    yield from running(search_path, marks=True)


@pytest.fixture
def markless(search_path: str) -> Iterator[RunningHost]:
    yield from running(search_path, marks=False)


test_the_whole_path = path.test_the_whole_path
test_a_customers_key_goes_with_what_it_started = path.test_a_customers_key_goes_with_what_it_started


def test_without_marks_a_wipe_still_takes_keys_and_folder(markless: RunningHost) -> None:
    admin, customer = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    host.claim(markless.target, path.LABEL, path.public(admin))
    host.install_customer_keys(markless.target, path.LABEL, {"laptop": path.public(customer)})
    host.wipe(markless.target, path.LABEL)
    assert not host.exists(markless.target, path.LABEL)
    assert path.LABEL not in markless.keys.read_text()
