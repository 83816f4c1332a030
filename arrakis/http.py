"""The one door to the network for the control plane: time limits, few redirects, no private addresses, capped bodies.

    answer = http.get("https://huggingface.co/api/models/owner/name", token=token)
    answer = http.post_over_socket(path, "/v1/completions", json={...})

A name is resolved once and the connection goes to that very address, so that a second look-up cannot lead inside.
Private addresses are refused, but for hosts of the settings (a hub of one's own, the demo hub on loopback).
"""

from __future__ import annotations

import ipaddress
import json as jsonlib
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx
from django.conf import settings

from arrakis.errors import Unavailable

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 20
MOST_SECONDS: Final = 600
MOST_REDIRECTS: Final = 3
MOST_BYTES: Final = 16 * 1024 * 1024
USER_AGENT: Final = "arrakis"


class NoAnswer(Unavailable):
    """Codes: net_unreachable, net_timeout, net_refused_address, net_redirects, net_too_large, net_protocol.

    Params: host.
    """


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers with lower-case names, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            NoAnswer: net_protocol, when it is not.
        """
        try:
            return jsonlib.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise NoAnswer("net_protocol", host="") from error


def get(
    url: str,
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    allow_private: Iterable[str] = (),
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
) -> Answer:
    """GET, following at most MOST_REDIRECTS.

    Args:
        token: sent as Bearer to the first host alone; a redirect to another never sees it.
        allow_private: origins (`http://127.0.0.1:9000`) whose address may be private; HF_ENDPOINT always may.
        most_seconds: for each answer as a whole, so that one that comes in drops does not hold its reader.

    Raises:
        NoAnswer: for everything but an answer; any status is an answer.
    """
    trusted = {origin(each) for each in (*allow_private, settings.HF_ENDPOINT)}
    sent = {"User-Agent": USER_AGENT, **(headers or {})}
    first = origin(url)
    for _hop in range(MOST_REDIRECTS + 1):
        own = {**sent, "Authorization": f"Bearer {token}"} if token and origin(url) == first else sent
        with _client(private=origin(url) in trusted) as client:
            answer = _send(client, httpx.Request("GET", url, headers=own), most_bytes, most_seconds)
        if answer.status not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
            return answer
        url = urljoin(url, answer.headers["location"])
        if urlsplit(url).scheme not in {"http", "https"}:
            raise NoAnswer("net_protocol", host=_host(url))
    raise NoAnswer("net_redirects", host=_host(url))


def get_over_socket(path: Path, target: str, *, timeout: float = READ_SECONDS, most_bytes: int = 65_536) -> Answer:
    """GET over a Unix socket, such as the tunnel's to an engine. No redirects. Raises NoAnswer."""
    request = httpx.Request("GET", f"http://engine{target}")
    with _socket_client(path, timeout) as client:
        return _send(client, request, most_bytes)


def post_over_socket(
    path: Path, target: str, *, json: Any, timeout: float = READ_SECONDS, most_bytes: int = 65_536
) -> Answer:
    """POST JSON over a Unix socket. No redirects. Raises NoAnswer."""
    request = httpx.Request("POST", f"http://engine{target}", json=json)
    with _socket_client(path, timeout) as client:
        return _send(client, request, most_bytes)


def origin(url: str) -> str:
    """`http://127.0.0.1:9000` of an address, with its port where it is not the scheme's own."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def _send(client: httpx.Client, request: httpx.Request, most_bytes: int, most_seconds: float = MOST_SECONDS) -> Answer:
    host, end = request.url.host, time.monotonic() + most_seconds
    try:
        response = client.send(request, stream=True)
        try:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > most_bytes:
                    raise NoAnswer("net_too_large", host=host)
                if time.monotonic() > end:
                    raise NoAnswer("net_timeout", host=host)
        finally:
            response.close()
    except httpx.TimeoutException as error:
        raise NoAnswer("net_timeout", host=host) from error
    except (httpx.ProtocolError, httpx.DecodingError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise NoAnswer("net_protocol", host=host) from error
    except httpx.TransportError as error:
        raise NoAnswer("net_unreachable", host=host) from error
    return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, bytes(body))


def _client(*, private: bool) -> httpx.Client:
    transport = httpx.HTTPTransport(verify=_tls(), trust_env=False)
    transport._pool = httpcore.ConnectionPool(ssl_context=_tls(), network_backend=_Guarded(private=private))
    return httpx.Client(transport=transport, timeout=_timeout(READ_SECONDS), trust_env=False)


def _socket_client(path: Path, timeout: float) -> httpx.Client:
    return httpx.Client(
        transport=httpx.HTTPTransport(uds=str(path), verify=_tls(), trust_env=False),
        timeout=_timeout(timeout),
        trust_env=False,
    )


@cache
def _tls() -> ssl.SSLContext:
    """One for all connections: reading the authorities takes longer than most answers."""
    return ssl.create_default_context()


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=CONNECT_SECONDS)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


class _Guarded(httpcore.SyncBackend):
    """Connects to the address it looked at, and only to a public one unless told otherwise."""

    def __init__(self, *, private: bool) -> None:
        self._private = private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        address = _address(host, port, private=self._private)
        return super().connect_tcp(address, port, timeout, local_address, socket_options)


def _address(host: str, port: int, *, private: bool) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from error
    addresses = [str(each[4][0]) for each in found]
    if not private and any(not ipaddress.ip_address(each.partition("%")[0]).is_global for each in addresses):
        raise NoAnswer("net_refused_address", host=host)
    return addresses[0]
