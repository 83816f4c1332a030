"""The door to the network, against servers on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from arrakis import http
from arrakis.http import NoAnswer


class Server(BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str | None]]] = []
    elsewhere: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        if self.path == "/away":
            return self._redirect(self.elsewhere)
        if self.path == "/inside":
            return self._redirect("http://169.254.169.254/latest")
        if self.path == "/round":
            return self._redirect("/round")
        if self.path == "/file":
            return self._redirect("file:///etc/passwd")
        body = b"x" * 5000 if self.path == "/large" else b'{"a": 1}'
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _redirect(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return None


def _serve() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def here() -> Iterator[str]:
    Server.seen.clear()
    yield from _serve()


@pytest.fixture
def there() -> Iterator[str]:
    yield from _serve()


def code_of(url: str, **options: object) -> str:
    with pytest.raises(NoAnswer) as caught:
        http.get(url, **options)  # type: ignore[arg-type]
    return caught.value.code


def test_any_status_is_an_answer(here: str) -> None:
    assert http.get(f"{here}/", allow_private=[here]).json() == {"a": 1}
    assert http.get(f"{here}/none", allow_private=[here]).status == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "0.0.0.0"])
def test_private_addresses_are_refused_before_anything_is_sent(host: str) -> None:
    assert code_of(f"http://{host}:10/") == "net_refused_address"


def test_a_redirect_does_not_lead_inside(here: str) -> None:
    assert code_of(f"{here}/inside", allow_private=[here]) == "net_refused_address"
    assert code_of(f"{here}/file", allow_private=[here]) == "net_protocol"


def test_redirects_end(here: str) -> None:
    assert code_of(f"{here}/round", allow_private=[here]) == "net_redirects"
    assert len(Server.seen) == http.MOST_REDIRECTS + 1


def test_a_token_goes_to_the_first_host_alone(here: str, there: str) -> None:
    Server.elsewhere = f"{there}/landed"
    http.get(f"{here}/away", token="secret", allow_private=[here, there])
    assert Server.seen == [("/away", "Bearer secret"), ("/landed", None)]


def test_bodies_are_capped(here: str) -> None:
    assert code_of(f"{here}/large", allow_private=[here], most_bytes=4999) == "net_too_large"


def test_nobody_there(here: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    assert code_of(f"{url}/", allow_private=[url]) == "net_unreachable"


def test_over_a_socket_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer) as caught:
        http.get_over_socket(tmp_path / "none.sock", "/v1/models")
    assert caught.value.code == "net_unreachable"


def test_what_is_not_json_is_said(here: str) -> None:
    with pytest.raises(NoAnswer):
        http.Answer(200, {}, b"<html>").json()
