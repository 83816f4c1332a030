"""The engines' side: pooled connections over the tunnels' sockets, and what of an engine's answer is believed.

Whoever rents a machine has root there, so an engine may say anything (DESIGN 5.6). Up go our own headers and the
body, never the customer's key. Down come a status we know, one of two content types, and a body; an error is read,
and said again in our words' shape. A redirect, a cookie, a page of HTML: the request ends here.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from yarl import URL

from deploy.gateway.errors import Refused
from deploy.gateway.routes import Route
from deploy.tunnels.paths import socket_path

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 5
SILENCE_SECONDS: Final = 600
"""An engine may think that long before it says anything, and between two things it says."""
KEEPALIVE_SECONDS: Final = 4
"""Under the 5 s after which the engines' own servers close a connection that is not used."""
RETRY_WITHIN_SECONDS: Final = 0.5
IDLE_SESSION_SECONDS: Final = 120
ORIGIN: Final = URL("http://localhost")
AGENT: Final = "arrakis-gateway"
BIG_BODY_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class Line:
    """The connections to one machine's engine."""

    session: aiohttp.ClientSession
    used: float = field(default_factory=time.monotonic)
    busy: int = 0


class Upstreams:
    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    async def ask(self, route: Route, path: str, body: bytes, request_id: str) -> aiohttp.ClientResponse:
        """The head of the engine's answer. The caller reads it and calls `done`.

        Refused: engine_unreachable, engine_timeout, bad_gateway.
        """
        if route.machine is None:
            raise Refused("engine_unreachable", model=route.repo_id)
        line = self._line(route.machine)
        line.busy += 1
        try:
            return await self._ask(line, route, path, body, request_id)
        except BaseException:
            self._leave(line)
            raise

    def done(self, route: Route, response: aiohttp.ClientResponse) -> None:
        """Give the connection back; one whose answer was not read to its end is closed, which stops the engine."""
        response.close()
        if route.machine is not None and (line := self._lines.get(route.machine)) is not None:
            self._leave(line)

    async def sweep(self) -> None:
        """Close what was not used for a while: most machines that were ever asked are gone."""
        now = time.monotonic()
        for machine, line in list(self._lines.items()):
            if not line.busy and now - line.used > IDLE_SESSION_SECONDS:
                del self._lines[machine]
                await line.session.close()

    async def close(self) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.session.close()

    def _line(self, machine: str) -> Line:
        line = self._lines.get(machine)
        if line is None:
            line = self._lines[machine] = Line(_session(machine))
        return line

    @staticmethod
    def _leave(line: Line) -> None:
        line.busy -= 1
        line.used = time.monotonic()

    async def _ask(self, line: Line, route: Route, path: str, body: bytes, request_id: str) -> aiohttp.ClientResponse:
        began = time.monotonic()
        headers = {"content-type": "application/json", "x-request-id": request_id, "user-agent": AGENT}
        for last in (False, True):
            data = io.BytesIO(body) if len(body) > BIG_BODY_BYTES else body
            try:
                return await line.session.post(
                    ORIGIN.with_path(path), data=data, headers=headers, allow_redirects=False
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, TimeoutError) as error:
                # A kept connection may have been closed just as it was taken: then, and at once, once more.
                if last or not _worn(error) or time.monotonic() - began > RETRY_WITHIN_SECONDS:
                    raise _unreached(error, route) from error
            except (aiohttp.ClientError, ValueError) as error:
                logger.warning("%s: nonsense from the machine of %s: %r", request_id, route.deployment, error)
                raise Refused("bad_gateway") from error
        raise AssertionError("unreachable")


def _session(machine: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.UnixConnector(str(socket_path(machine)), limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS),
        auto_decompress=False,
        skip_auto_headers=("accept-encoding", "user-agent", "accept"),
        trust_env=False,
    )


def _worn(error: Exception) -> bool:
    return not isinstance(error, (aiohttp.ClientConnectorError, TimeoutError))


def _unreached(error: Exception, route: Route) -> Refused:
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return Refused("engine_timeout")
    return Refused("engine_unreachable", model=route.repo_id)


async def read_most(response: aiohttp.ClientResponse, most: int, seconds: float) -> bytes:
    """The first `most` bytes of an answer, or what came of them in time. Never raises for what the engine does."""
    parts = bytearray()
    with suppress(aiohttp.ClientError, TimeoutError, ValueError):
        async with asyncio.timeout(seconds):
            async for chunk in response.content.iter_any():
                parts += chunk
                if len(parts) >= most:
                    break
    return bytes(parts[:most])
