"""One SSH connection's work, synchronous for its callers: workers are not asynchronous, and share no loop.

    with connect(target) as session:
        result = session.run("uname -sm", timeout=10)

Every wait has a limit in seconds, every output a cap in bytes. The host key is pinned: the first contact
(`target.host_key` is None) trusts what answers and returns it as `session.host_key`, to be stored and required
from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import asyncssh

from deploy.machine.errors import CommandFailed, HostKeyChanged, HostUnreachable, LoginRefused

CONNECT_SECONDS: Final = 15
KEEPALIVE_SECONDS: Final = 10
MAX_OUTPUT_BYTES: Final = 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a machine answers. `host_key` and `private_key` are OpenSSH text; the private key is kept out of repr."""

    host: str
    port: int
    user: str
    host_key: str | None
    private_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. Output is cut at the cap, and `truncated` says so. -1 where a signal ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class Session:
    """A connection that is open. Made by `connect`."""

    def __init__(self, loop: asyncio.Runner, connection: asyncssh.SSHClientConnection, host_key: str) -> None:
        self._runner = loop
        self._connection = connection
        self.host_key = host_key

    def run(
        self,
        command: str,
        *,
        stdin: bytes | None = None,
        timeout: float = 60,
        max_output: int = MAX_OUTPUT_BYTES,
    ) -> Result:
        """Run a shell command; its status is the caller's to judge. CommandFailed only when it outlasts `timeout`."""
        return self._work(_run(self._connection, command, stdin or b"", max_output), timeout, command)

    def put(self, path: str, data: bytes, mode: int = 0o600, *, timeout: float = 60) -> None:
        """Write a file whole: readers see the old one or the new one, never a part."""
        self._work(_put(self._connection, path, data, mode), timeout, "put")

    def _work(self, work: Coroutine[Any, Any, T], timeout: float, what: str) -> T:
        try:
            return self._runner.run(asyncio.wait_for(work, timeout))
        except TimeoutError as error:
            verb = what.split(" ", 1)[0][:40]
            raise CommandFailed("command_failed", verb=verb, exit_code=-1, detail="timeout") from error
        except (asyncssh.SFTPError, asyncssh.ChannelOpenError) as error:
            raise CommandFailed("command_failed", verb=what[:40], exit_code=-1, detail=str(error)[:200]) from error
        except (OSError, asyncssh.Error) as error:
            raise HostUnreachable("host_lost") from error


@contextmanager
def connect(target: Target, *, timeout: float = CONNECT_SECONDS) -> Iterator[Session]:
    """Open a connection and close it in the end. HostUnreachable, HostKeyChanged or LoginRefused."""
    with asyncio.Runner() as runner:
        connection = _open(runner, target, timeout)
        key = connection.get_server_host_key()
        host_key = key.export_public_key().decode().strip() if key else ""
        try:
            yield Session(runner, connection, host_key)
        finally:
            connection.abort()
            with suppress(OSError, asyncssh.Error, TimeoutError):
                runner.run(asyncio.wait_for(connection.wait_closed(), 5))


def _open(runner: asyncio.Runner, target: Target, timeout: float) -> asyncssh.SSHClientConnection:
    try:
        return runner.run(asyncio.wait_for(_connect(target, timeout), timeout))
    except TimeoutError as error:
        raise HostUnreachable("host_timeout") from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostKeyChanged("host_key_changed", fingerprint=fingerprint(target.host_key or "")) from error
    except asyncssh.PermissionDenied as error:
        raise LoginRefused("login_refused") from error
    except (OSError, asyncssh.Error) as error:
        raise HostUnreachable("host_unreachable") from error


async def _connect(target: Target, timeout: float) -> asyncssh.SSHClientConnection:
    # Everything of the worker's own account is switched off: no agent, no config, no known_hosts, no default keys.
    pinned: Any = ([asyncssh.import_public_key(target.host_key)], [], []) if target.host_key else None
    return await asyncssh.connect(
        target.host,
        target.port,
        username=target.user,
        client_keys=[asyncssh.import_private_key(target.private_key)],
        known_hosts=pinned,
        config=None,
        agent_path=None,
        x509_trusted_certs=None,
        preferred_auth="publickey",
        login_timeout=timeout,
        keepalive_interval=KEEPALIVE_SECONDS,
    )


async def _run(connection: asyncssh.SSHClientConnection, command: str, stdin: bytes, cap: int) -> Result:
    process = await connection.create_process(command, encoding=None)
    try:
        feed = asyncio.create_task(_feed(process, stdin))
        (out, cut_out), (err, cut_err) = await asyncio.gather(_read(process.stdout, cap), _read(process.stderr, cap))
        await process.wait_closed()
        await feed
    finally:
        process.close()
    code = process.exit_status
    return Result(-1 if code is None else code, out, err, cut_out or cut_err)


async def _feed(process: asyncssh.SSHClientProcess[bytes], stdin: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionError):
        process.stdin.write(stdin)
        await process.stdin.drain()
        process.stdin.write_eof()


async def _read(stream: asyncssh.SSHReader[bytes], cap: int) -> tuple[bytes, bool]:
    """Up to `cap` bytes; the rest is read and dropped, so that the command is not held up by a full window."""
    kept = bytearray()
    cut = False
    while chunk := await stream.read(65536):
        room = cap - len(kept)
        kept += chunk[:room]
        cut = cut or len(chunk) > room
    return bytes(kept), cut


async def _put(connection: asyncssh.SSHClientConnection, path: str, data: bytes, mode: int) -> None:
    part = f"{path}.part"
    async with connection.start_sftp_client() as sftp:
        with suppress(asyncssh.SFTPNoSuchFile):
            await sftp.remove(part)
        async with sftp.open(part, "wb", attrs=asyncssh.SFTPAttrs(permissions=mode)) as file:
            await file.write(data)
        await sftp.chmod(part, mode)
        await sftp.posix_rename(part, path)


def fingerprint(host_key: str) -> str:
    """`SHA256:...` of a public key in OpenSSH text, or an empty string."""
    try:
        return asyncssh.import_public_key(host_key).get_fingerprint()
    except asyncssh.KeyImportError:
        return ""
