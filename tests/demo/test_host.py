"""The demo's machine as those see it who log in: who may, what each key may do, what a session can."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
import pytest

from arrakis.demo.rented.server import MAX_STRANGERS
from tests.demo.fixtures import WAIT_SECONDS, RunningHost

T = TypeVar("T")
LABEL = "arrakis-abc-1"


def do(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, WAIT_SECONDS))


async def run(host: RunningHost, command: str, key: asyncssh.SSHKey | None = None, **options: Any) -> Any:
    async with host.connect(key) as connection:
        return await connection.run(command, **options)


class Echo:
    """Something that listens on the machine's loopback, in the test's own loop."""

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()


async def through(connection: asyncssh.SSHClientConnection, host: str, port: int) -> bytes:
    reader, writer = await connection.open_connection(host, port)
    writer.write(b"ping")
    writer.write_eof()
    return bytes(await reader.read())


# ------------------------------------------------------------------ who may log in


def test_the_operators_key_logs_in_and_another_does_not(demo_host: RunningHost) -> None:
    assert do(run(demo_host, "echo $HOME")).stdout == f"{demo_host.home}\n"
    with pytest.raises(asyncssh.PermissionDenied):
        do(run(demo_host, "true", asyncssh.generate_private_key("ssh-ed25519")))


def test_nobody_else_has_an_account(demo_host: RunningHost) -> None:
    async def as_root() -> None:
        async with demo_host.connect(user="root"):
            pass

    with pytest.raises(asyncssh.PermissionDenied):
        do(as_root())


def test_keys_are_read_at_every_login(demo_host: RunningHost) -> None:
    before = demo_host.keys.read_text()
    key = demo_host.add_key()
    assert do(run(demo_host, "echo in", key)).stdout == "in\n"
    demo_host.keys.write_text(before)
    with pytest.raises(asyncssh.PermissionDenied):
        do(run(demo_host, "true", key))


@pytest.mark.parametrize(
    "options",
    [
        "no-such-option",
        "Command=true",
        'expiry-time="20200101Z"',
        'expiry-time="soon"',
        "cert-authority",
    ],
)
def test_a_line_that_is_not_understood_or_over_lets_nobody_in(demo_host: RunningHost, options: str) -> None:
    key = demo_host.add_key(options)
    with pytest.raises(asyncssh.PermissionDenied):
        do(run(demo_host, "true", key))


def test_a_line_that_ends_later_lets_in(demo_host: RunningHost) -> None:
    assert do(run(demo_host, "echo in", demo_host.add_key('expiry-time="20991231235959Z"'))).stdout == "in\n"


def test_a_line_from_elsewhere_lets_nobody_in_here(demo_host: RunningHost) -> None:
    key = demo_host.add_key('from="192.0.2.1"')
    with pytest.raises(asyncssh.PermissionDenied):
        do(run(demo_host, "true", key))


# ------------------------------------------------------------------ what a key may do


def test_a_forced_command_runs_and_no_other(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with Echo() as port, Echo() as other:
            options = (
                f'command="echo forced",permitopen="127.0.0.1:{port}",no-agent-forwarding,no-pty,no-X11-forwarding'
            )
            async with demo_host.connect(demo_host.add_key(options)) as connection:
                assert (await connection.run("cat /etc/passwd")).stdout == "forced\n"
                assert (await connection.run()).stdout == "forced\n"
                with pytest.raises((asyncssh.SFTPError, asyncssh.ChannelOpenError, asyncssh.ConnectionLost)):
                    async with connection.start_sftp_client() as sftp:
                        await sftp.listdir(".")
                assert await through(connection, "127.0.0.1", port) == b"ping"
                for place in ("127.0.0.1", "localhost"):
                    with pytest.raises(asyncssh.ChannelOpenError):
                        await through(connection, place, other)
                with pytest.raises(asyncssh.ChannelOpenError):
                    await connection.run("true", term_type="xterm")

    do(look())


def test_forwards_reach_loopback_only(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with Echo() as port, demo_host.connect() as connection:
            assert await through(connection, "127.0.0.1", port) == b"ping"
            assert await through(connection, "localhost", port) == b"ping"
            for place in ("0.0.0.0", "192.0.2.1", "example.com", "127.0.0.1.example.com"):
                with pytest.raises(asyncssh.ChannelOpenError):
                    await through(connection, place, port)
            with pytest.raises(asyncssh.ChannelListenError):
                await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", port)

    do(look())


@pytest.mark.parametrize(
    ("options", "forwards", "has_terminal"),
    [
        ("restrict", False, False),
        ("restrict,port-forwarding", True, False),
        ("restrict,pty", False, True),
        ("no-port-forwarding", False, True),
        ("no-pty", True, False),
        ("", True, True),
    ],
)
def test_restrictions_hold(demo_host: RunningHost, options: str, forwards: bool, has_terminal: bool) -> None:
    async def look() -> None:
        async with Echo() as port, demo_host.connect(demo_host.add_key(options)) as connection:
            assert (await connection.run("echo in")).stdout == "in\n"
            assert forwards is await _allows(through(connection, "127.0.0.1", port))
            assert has_terminal is await _allows(connection.run("true", term_type="xterm"))

    do(look())


async def _allows(work: Coroutine[Any, Any, Any]) -> bool:
    try:
        await work
    except asyncssh.ChannelOpenError:
        return False
    return True


@pytest.mark.parametrize(
    ("comment", "mark"),
    [
        (f"arrakis:{LABEL}:customer:9f1c-22", f"arrakis:{LABEL}:customer"),
        (f"arrakis:{LABEL}:tunnel", f"arrakis:{LABEL}:tunnel"),
        ("me@home", ""),
        ("", ""),
    ],
)
def test_sessions_carry_the_mark_of_their_key(demo_host: RunningHost, comment: str, mark: str) -> None:
    key = demo_host.add_key(comment=comment)
    assert do(run(demo_host, "echo $ARRAKIS_SESSION", key)).stdout == f"{mark}\n"


def test_a_line_cannot_set_the_environment(demo_host: RunningHost) -> None:
    key = demo_host.add_key('environment="ARRAKIS_SESSION=another",environment="LD_PRELOAD=/x"', "me@home")
    assert do(run(demo_host, "echo $ARRAKIS_SESSION$LD_PRELOAD.", key)).stdout == ".\n"


@pytest.mark.parametrize("kind", ["customer:1", "tunnel"])
def test_a_key_taken_away_ends_its_connections(demo_host: RunningHost, kind: str) -> None:
    before = demo_host.keys.read_text()
    key = demo_host.add_key(comment=f"arrakis:{LABEL}:{kind}")

    async def look() -> None:
        async with demo_host.connect(key) as connection, demo_host.connect() as operator:
            demo_host.keys.write_text(before)
            await connection.wait_closed()
            assert (await operator.run("echo still here")).stdout == "still here\n"

    do(look())


# ------------------------------------------------------------------ what a session can


def test_streams_statuses_and_signals(demo_host: RunningHost) -> None:
    data = os.urandom(2_000_000)
    ended = do(run(demo_host, "tee /dev/stderr; exit 7", input=data, encoding=None))
    assert (ended.stdout, ended.stderr, ended.exit_status) == (data, data, 7)
    killed = do(run(demo_host, "kill -9 $$"))
    assert killed.exit_signal[0] == "KILL"


def test_the_end_of_input_reaches_the_command(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with demo_host.connect() as connection:
            process = await connection.create_process("cat; echo done")
            process.stdin.write_eof()
            assert (await process.wait()).stdout == "done\n"

    do(look())


def test_a_signal_from_the_client_reaches_the_command(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with demo_host.connect() as connection:
            process = await connection.create_process(
                "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.1; done"
            )
            assert await process.stdout.readline() == "ready\n"
            process.send_signal("TERM")
            ended = await process.wait()
            assert (ended.stdout, ended.exit_status) == ("got it\n", 5)

    do(look())


def test_a_channel_that_closes_does_not_hold_the_host_up(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with demo_host.connect() as connection:
            process = await connection.create_process("yes")
            await process.stdout.read(10)
            process.close()
            assert (await connection.run("echo next")).stdout == "next\n"

    do(look())
    until(lambda: not with_command("yes"))


_ON_TERMINAL = """
tty; stty size; echo $TERM
trap 'echo interrupted; exit 3' INT
trap 'stty size; echo resized' WINCH
echo ready
while :; do sleep 0.05; done
"""


def test_a_terminal_has_its_size_and_its_keys(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with demo_host.connect() as connection:
            process = await connection.create_process(_ON_TERMINAL, term_type="vt100", term_size=(100, 40))
            begin = await process.stdout.readuntil("ready\r\n")
            assert begin.startswith("/dev/pts/") and begin.endswith("40 100\r\nvt100\r\nready\r\n")
            process.change_terminal_size(90, 30)
            assert await process.stdout.readuntil("resized\r\n") == "30 90\r\nresized\r\n"
            process.stdin.write("\x03")
            ended = await process.wait()
            assert ended.stdout.endswith("interrupted\r\n") and ended.exit_status == 3

    do(look())


def test_without_a_command_there_is_a_shell(demo_host: RunningHost) -> None:
    async def look() -> None:
        async with demo_host.connect() as connection:
            process = await connection.create_process(term_type="xterm")
            process.stdin.write("echo $((6 * 7)); exit 4\n")
            ended = await process.wait()
            assert "42\r\n" in ended.stdout and ended.exit_status == 4
            plain = await connection.run(input="echo $((6 * 7)); exit 5\n")
            assert (plain.stdout, plain.exit_status) == ("42\n", 5)

    do(look())


def test_files_go_to_and_fro_from_home(demo_host: RunningHost, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "up").write_bytes(content)

    async def look() -> None:
        async with demo_host.connect() as connection, connection.start_sftp_client() as sftp:
            assert await sftp.getcwd() == str(demo_host.home)
            await sftp.put(tmp_path / "up", "there")
            await sftp.posix_rename("there", "elsewhere")
            await sftp.get("elsewhere", tmp_path / "down")
            await sftp.remove("elsewhere")

    do(look())
    assert (tmp_path / "down").read_bytes() == content


def test_python_and_llama_server_come_first_on_the_path(demo_host: RunningHost) -> None:
    command = "command -v python3 llama-server; python3 -c 'import ssl; print(ssl.HAS_SNI)'; llama-server --bogus"
    ended = do(run(demo_host, command))
    folder = demo_host.folder / "bin"
    assert ended.stdout == f"{folder}/python3\n{folder}/llama-server\nTrue\n"
    assert (ended.exit_status, ended.stderr) == (1, "error: invalid argument: --bogus\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_sessions_of_root_are_not_root(demo_host: RunningHost, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    told = do(run(demo_host, "id -u; id -G; grep NoNewPrivs /proc/self/status")).stdout.split()
    assert told[0] == told[1] == str(demo_host.folder.stat().st_uid) != "0"
    assert told[-1] == "1"
    assert do(run(demo_host, f"cat {secret} /etc/shadow")).stdout == ""

    async def by_sftp() -> None:
        async with demo_host.connect() as connection, connection.start_sftp_client() as sftp:
            await sftp.get("/etc/shadow", tmp_path / "shadow")

    with pytest.raises(asyncssh.SFTPError):
        do(by_sftp())


# ------------------------------------------------------------------ limits


def test_strangers_are_limited_and_leave_room_again(own_host: RunningHost) -> None:
    async def look() -> None:
        waiting = [await asyncio.open_connection("127.0.0.1", own_host.port) for _ in range(MAX_STRANGERS)]
        for reader, _writer in waiting:
            await reader.readline()  # the server's greeting: each is counted by now
        with pytest.raises((asyncssh.Error, OSError)):
            async with own_host.connect():
                pass
        for _reader, writer in waiting:
            writer.close()
        while not await _lets_in(own_host):
            await asyncio.sleep(0.05)

    own_host.start()
    do(look())


async def _lets_in(host: RunningHost) -> bool:
    try:
        async with host.connect():
            return True
    except (asyncssh.Error, OSError):
        return False


def until(true: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def with_command(word: str) -> list[str]:
    """Processes whose whole command is this word."""
    return [entry.name for entry in Path("/proc").glob("[0-9]*") if _command(entry.name) == [word]]


def _command(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    except OSError:
        return []
