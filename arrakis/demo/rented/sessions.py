"""What a login runs: a command or a shell, over pipes or a terminal, with the streams and signals of its channel."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh

from arrakis.demo.rented.processes import Children

Process = asyncssh.SSHServerProcess[bytes]

_CHUNK_BYTES = 65536
_END_OF_INPUT = b"\x04"
# A new session has no terminal: the first that its leader opens becomes its own.
_ON_TERMINAL = 'exec <"$0" >"$0" 2>&1 && exec "$@"'
SHELL = next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")


class Stream:
    """A descriptor of ours that does not block the loop; closed with it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """Some bytes, or none at the end."""
        while True:
            try:
                return self.read_now()
            except BlockingIOError:
                await self._wait(self._loop.add_reader, self._loop.remove_reader)

    def read_now(self) -> bytes:
        """What is there. Raises BlockingIOError when nothing is yet."""
        try:
            return os.read(self._descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            raise
        except OSError:  # EIO: nobody has the terminal open any more
            return b""

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                await self._wait(self._loop.add_writer, self._loop.remove_writer)

    def close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def _wait(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(self._descriptor, _settle, ready)
        try:
            await ready
        finally:
            remove(self._descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Session:
    """One channel's process."""

    def __init__(self, process: Process, children: Children, env: dict[str, str]) -> None:
        self._process, self._children, self._env = process, children, env
        self._pid = 0
        self._terminal: int | None = None

    async def run(self) -> None:
        """From its start until it has ended and its output is sent, or the channel is closed."""
        if self._process.subsystem:
            self._process.exit(127)
            return
        argv = [SHELL, "-c", self._process.command] if self._process.command is not None else [SHELL]
        try:
            code = await (self._over_pipes(argv) if self._process.term_type is None else self._on_terminal(argv))
        except OSError as error:
            self._process.stderr.write(f"{error.strerror}\n".encode())
            code = 126
        if code is not None:
            self._tell(code)

    async def _over_pipes(self, argv: list[str]) -> int | None:
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
        stdin, stdout, stderr = Stream(our_in), Stream(our_out), Stream(our_err)
        try:
            try:
                ended = self._spawn(argv, self._env, their_in, their_out, their_err)
            finally:
                for descriptor in (their_in, their_out, their_err):
                    os.close(descriptor)
            output = asyncio.gather(_copy(stdout, self._process.stdout), _copy(stderr, self._process.stderr))
            return await self._until_over(ended, self._feed(stdin, b""), output)
        finally:
            for stream in (stdin, stdout, stderr):
                stream.close()

    async def _on_terminal(self, argv: list[str]) -> int | None:
        ours, theirs = pty.openpty()
        self._terminal = ours
        master = Stream(ours)
        try:
            self._resize(self._process.term_size)
            on_terminal = ["/bin/sh", "-c", _ON_TERMINAL, os.ttyname(theirs), *argv]
            null = subprocess.DEVNULL
            env = {**self._env, "TERM": self._process.term_type or "dumb"}
            ended = self._spawn(on_terminal, env, null, null, null)
            copying = asyncio.ensure_future(_copy(master, self._process.stdout))
            try:
                # Others may still hold the terminal when the shell ends: what is written by then is sent, no more.
                code = await self._until_over(ended, self._feed(master, _END_OF_INPUT))
            finally:
                await _cancel(copying)
            if code is not None:
                self._send_rest(master)
            return code
        finally:
            os.close(theirs)
            master.close()

    def _spawn(self, argv: list[str], env: dict[str, str], stdin: int, stdout: int, stderr: int) -> asyncio.Future[int]:
        self._pid, ended = self._children.spawn(argv, env, stdin, stdout, stderr)
        ended.add_done_callback(self._forget)  # the number may be another's from then on
        return ended

    def _forget(self, _ended: asyncio.Future[int]) -> None:
        self._pid = 0

    async def _until_over(
        self,
        ended: asyncio.Future[int],
        feed: Coroutine[None, None, None],
        output: asyncio.Future[Any] | None = None,
    ) -> int | None:
        """Until it has ended, and all `output` is sent: its return code. None when the channel is closed before."""
        feeding = asyncio.ensure_future(feed)
        closed = asyncio.ensure_future(self._process.wait_closed())
        over = asyncio.gather(asyncio.shield(ended), *([output] if output is not None else []))
        waiting: list[asyncio.Future[Any]] = [over, closed]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if over.done() and over.exception() is None else None
        finally:
            await _cancel(feeding, closed, over)

    async def _feed(self, target: Stream, at_end: bytes) -> None:
        """What comes from the client: bytes, signals, and new sizes of its window."""
        stdin = self._process.stdin
        while not stdin.at_eof():
            try:
                await target.write(await stdin.read(_CHUNK_BYTES))
            except asyncssh.TerminalSizeChanged as change:
                self._resize(change.term_size)
            except asyncssh.BreakReceived:
                self._signal("INT")
            except asyncssh.SignalReceived as received:
                self._signal(received.signal)
            except (OSError, asyncssh.Error):  # nobody reads it, or nobody sends any more
                break
        if at_end:
            with suppress(OSError):
                await target.write(at_end)
        else:
            target.close()

    def _signal(self, name: str) -> None:
        number = getattr(signal, f"SIG{name}", None)
        if self._pid and isinstance(number, signal.Signals):
            with suppress(OSError):
                os.killpg(self._pid, number)

    def _resize(self, size: tuple[int, int, int, int]) -> None:
        if self._terminal is not None:
            width, height, x, y = (min(max(part, 0), 0xFFFF) for part in size)
            with suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, x, y))

    def _send_rest(self, master: Stream) -> None:
        with suppress(OSError, asyncssh.Error):
            while data := master.read_now():
                self._process.stdout.write(data)

    def _tell(self, code: int) -> None:
        with suppress(OSError, asyncssh.Error):
            if code >= 0:
                self._process.exit(code)
            else:
                self._process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))


async def _copy(stream: Stream, writer: asyncssh.SSHWriter[bytes]) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
