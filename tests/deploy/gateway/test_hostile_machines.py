"""A machine whose root is hostile: nothing of it reaches the client but a status, a body and one of two types."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from deploy.gateway.models import UsageHour
from tests.deploy.gateway.conftest import MESSAGES, REPO, Running, Served, stream, until, words
from tests.fakes import engines
from tests.fakes.engines import Answer, FakeEngine, Received

ALLOWED_DOWN = {
    "content-type",
    "content-length",
    "transfer-encoding",
    "date",
    "x-request-id",
    "x-content-type-options",
    "content-security-policy",
    "referrer-policy",
    "cache-control",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "x-accel-buffering",
    "x-should-retry",
    "retry-after",
    "x-deployment-stage",
    "connection",
}


def post(running: Running, served: Served, path: str = "/v1/chat/completions", **more: object) -> httpx.Response:
    body = {"model": REPO, "messages": MESSAGES, **more}
    return httpx.post(running.url + path, headers={"x-api-key": served.plaintext}, json=body, timeout=20)


@pytest.mark.parametrize(
    "answer",
    [
        engines.page_with_cookies,
        engines.redirect,
        engines.giant_header,
        engines.whole("200 OK", b"%PDF", "application/pdf"),
        engines.whole("200 OK", b"{}", "application/json", "Content-Encoding: gzip"),
        engines.whole("200 OK", b"", "text/event-stream"),
        engines.whole("401 Unauthorized", b'{"error":"Unauthorized"}'),
        engines.whole("500 Oops", b"<h1>traceback</h1>", "text/html"),
        engines.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"),
        engines.raw(b"HTTP/1.1 200 OK\r\nX: a\r\n b\0\r\nContent-Type: application/json\r\n\r\n{}"),
        engines.raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
        engines.raw(engines.head("101 Switching", "Upgrade: websocket", "Connection: upgrade")),
    ],
)
def test_nonsense_is_a_bad_gateway(running: Running, served: Served, engine: FakeEngine, answer: Answer) -> None:
    engine.answer = answer
    got = post(running, served)
    assert got.status_code == 502, got.text
    assert got.json()["error"]["code"] == "bad_gateway"
    assert got.headers["content-type"] == "application/json"
    assert "evil" not in got.text and "script" not in got.text and "traceback" not in got.text
    assert set(got.headers) <= ALLOWED_DOWN


def test_only_our_headers_come_down(running: Running, served: Served, engine: FakeEngine) -> None:
    body = json.dumps({"choices": []}).encode()
    evil = ("Set-Cookie: a=b", "Location: //evil", "Access-Control-Allow-Credentials: true", "Refresh: 0", "Server: x")
    engine.answer = engines.whole("200 OK", body, "application/json; charset=utf-7", *evil)
    got = post(running, served)
    assert got.status_code == 200 and got.content == body
    assert set(got.headers) <= ALLOWED_DOWN
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"].startswith("sandbox")


def test_only_our_headers_go_up(running: Running, served: Served, engine: FakeEngine) -> None:
    headers = {
        "authorization": f"Bearer {served.plaintext}",
        "cookie": "session=1",
        "x-forwarded-for": "10.0.0.1",
        "proxy-authorization": "Basic x",
        "host": "evil.example",
        "x-api-key": served.plaintext,
        "te": "trailers",
    }
    httpx.post(f"{running.url}/v1/chat/completions?api_key=x", headers=headers, json={"messages": MESSAGES})
    seen = engine.requests[0]
    assert seen.header_names() == {"host", "content-type", "content-length", "x-request-id", "user-agent"}
    assert dict(seen.headers)["host"] == "localhost"
    assert seen.target == "/v1/chat/completions"
    assert served.plaintext.encode() not in seen.body and served.plaintext not in str(seen.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_end_here(running: Running, served: Served, engine: FakeEngine, status: int) -> None:
    engine.answer = engines.whole(f"{status} Elsewhere", b"", "application/json", "Location: /v1/models")
    got = post(running, served)
    assert got.status_code == 502 and "location" not in got.headers
    assert len(engine.requests) == 1


LLAMA = {"error": {"code": 400, "type": "invalid_request_error", "message": "'messages' is required"}}
LLAMA_LONG = {
    "error": {
        "code": 400,
        "type": "exceed_context_size_error",
        "message": "request (6031 tokens) exceeds the available context size (2048 tokens)",
        "n_ctx": 2048,
    }
}
SGLANG = {"object": "error", "message": "bad \x1b[31mtemperature\n<b>", "type": "BadRequestError", "code": 400}
VLLM_MODEL = {"error": {"message": "The model `x` does not exist.", "type": "NotFoundError", "param": "model"}}
FASTAPI = {"detail": [{"loc": ["body"], "msg": "field required"}]}


@pytest.mark.parametrize(
    ("status", "said", "got_status", "code", "message"),
    [
        (400, LLAMA, 400, "invalid_request", "'messages' is required"),
        (400, LLAMA_LONG, 400, "context_length_exceeded", LLAMA_LONG["error"]["message"]),
        (400, SGLANG, 400, "invalid_request", "bad [31mtemperature <b>"),
        (422, FASTAPI, 422, "invalid_request", "field required"),
        (404, VLLM_MODEL, 404, "model_not_found", None),
        (404, {"detail": "Not Found"}, 400, "unsupported_by_engine", "Not Found"),
        (501, {"error": {"message": "no embeddings"}}, 400, "unsupported_by_engine", "no embeddings"),
        (429, {"error": {"message": "queue full"}}, 429, "rate_limit_exceeded", "queue full"),
        (503, {"error": {"message": "Loading model"}}, 503, "deployment_not_ready", None),
        (500, {"error": {"message": "x" * 10_000}}, 500, "engine_error", None),
        (500, {"error": {"message": {"a": 1}}}, 500, "engine_error", "The engine failed."),
        (400, ["what"], 502, "bad_gateway", None),
    ],
)
def test_engine_errors_in_one_shape(
    running: Running,
    served: Served,
    engine: FakeEngine,
    status: int,
    said: object,
    got_status: int,
    code: str,
    message: str | None,
) -> None:
    engine.answer = engines.says(status, said)
    got = post(running, served)
    error = got.json()["error"]
    assert (got.status_code, error["code"]) == (got_status, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert message is None or error["message"] == message
    assert len(error["message"]) <= 2_000


def test_cut_stream_raises_in_the_client(client: openai.OpenAI, engine: FakeEngine) -> None:
    engine.answer = engines.cut_stream
    heard = []
    with pytest.raises(openai.APIError) as caught:
        for chunk in stream(client):
            heard.append(chunk)
    assert words(heard) == ["Hello"]
    assert caught.value.code == "stream_broken"


def test_stream_without_done_is_not_taken_for_whole(client: openai.OpenAI, engine: FakeEngine) -> None:
    engine.answer = engines.raw(engines.head("200 OK", "Content-Type: text/event-stream") + engines.event("Hello"))
    with pytest.raises(openai.APIError) as caught:
        list(stream(client))
    assert caught.value.code == "stream_broken"


def test_stream_that_fails_before_its_first_event_is_an_error(client: openai.OpenAI, engine: FakeEngine) -> None:
    engine.answer = engines.raw(engines.STREAM_HEAD)
    with pytest.raises(openai.InternalServerError) as caught:
        stream(client)
    assert caught.value.code == "bad_gateway"


def test_events_cut_anywhere_arrive_whole(client: openai.OpenAI, engine: FakeEngine) -> None:
    events = b"".join(engines.event(word) for word in engines.WORDS) + b": ping\r\n\r\ndata: [DONE]\n\n"
    engine.answer = engines.in_pieces([events[n : n + 3] for n in range(0, len(events), 3)])
    assert words(stream(client)) == list(engines.WORDS)


def test_client_that_leaves_takes_the_engine_with_it(
    running: Running, client: openai.OpenAI, served: Served, engine: FakeEngine
) -> None:
    engine.answer = engines.never_ends
    with stream(client) as chunks:
        next(iter(chunks))
    assert engine.wait_until_left()
    running.stop()
    assert sum(hour.errors for hour in UsageHour.objects.filter(key=served.key)) == 0


def test_client_that_leaves_before_the_first_byte(running: Running, served: Served, engine: FakeEngine) -> None:
    engine.answer = engines.silent
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{running.url}/v1/chat/completions",
            headers={"x-api-key": served.plaintext},
            json={"model": REPO, "messages": MESSAGES},
            timeout=0.3,
        )
    assert engine.wait_until_left()


def test_client_that_reads_nothing_is_given_up(running: Running, served: Served, engine: FakeEngine) -> None:
    engine.answer = engines.flood
    body = json.dumps({"model": REPO, "messages": MESSAGES, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-api-key: {served.plaintext}\r\n"
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        core = running.gateway._core
        assert core is not None

        def is_stalled() -> bool:
            now = time.monotonic()
            return any(one.sending_since is not None and now - one.sending_since > 0.3 for one in list(core.exchanges))

        until(is_stalled)  # the engine is held back as well: what is on its way is bounded by buffers
        assert running.gateway._loop is not None
        running.gateway._loop.call_soon_threadsafe(core.end_stalled, time.monotonic())
        assert engine.wait_until_left()


def test_connection_closed_while_idle_is_replaced(running: Running, served: Served, engine: FakeEngine) -> None:
    async def once(request: Received, writer: asyncio.StreamWriter) -> None:
        await engines.well(request, writer)
        writer.close()

    engine.answer = once
    assert [post(running, served).status_code for _ in range(5)] == [200] * 5


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"not json", "invalid_json"),
        (b"[]", "invalid_json"),
        (b'{"model":"a","model":"b"}', "invalid_json"),
        (b'{"a":{"stream":1,"stream":2}}', "invalid_json"),
        (b'{"temperature":NaN}', "invalid_json"),
        (b'{"a":' * 100_000, "invalid_json"),
        (b"[" * 200_000, "invalid_json"),
        (b'{"n":' + b"9" * 10_000 + b"}", "invalid_json"),
        ('{"model":"é"}'.encode("utf-16"), "invalid_json"),
        (b'{"model":"\xff"}', "invalid_json"),
        (b'{"model":5}', "model_invalid"),
        (b'{"model":["a"]}', "model_invalid"),
        (b'{"x":1e999}', "invalid_json"),
    ],
)
def test_bodies_that_are_refused(running: Running, served: Served, engine: FakeEngine, body: bytes, code: str) -> None:
    headers = {"x-api-key": served.plaintext, "content-type": "application/json"}
    got = httpx.post(f"{running.url}/v1/chat/completions", headers=headers, content=body, timeout=20)
    assert got.status_code == 400 and got.json()["error"]["code"] == code
    assert not engine.requests


def test_huge_bodies(running: Running, served: Served, engine: FakeEngine) -> None:
    headers = {"x-api-key": served.plaintext}
    url = f"{running.url}/v1/chat/completions"
    too_many = httpx.post(url, headers=headers, content=b'{"a":[' + b"[]," * 1_500_000 + b"[]]}", timeout=20)
    assert too_many.json()["error"]["code"] == "body_too_complex"
    gzipped = httpx.post(url, headers={**headers, "content-encoding": "gzip"}, content=b"x", timeout=20)
    assert gzipped.status_code == 415
    assert not engine.requests
    big = json.dumps({"model": "default", "messages": [{"role": "user", "content": "x" * 8_000_000}]})
    assert httpx.post(url, headers=headers, content=big, timeout=20).status_code == 200
    assert len(engine.requests[-1].body) > 8_000_000


@pytest.mark.parametrize("size", ["Content-Length: 1000000000000", "Transfer-Encoding: chunked"])
def test_body_beyond_the_limit(running: Running, served: Served, engine: FakeEngine, size: str) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as raw:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-api-key: {served.plaintext}\r\n{size}\r\n\r\n"
        raw.sendall(head.encode())
        if size.endswith("chunked"):
            piece = b"x" * 1024 * 1024
            for _ in range(33):
                raw.sendall(engines.http_chunk(piece))
        assert b" 413 " in raw.recv(65536).split(b"\r\n", 1)[0]


def test_body_passes_byte_for_byte_where_the_name_fits(running: Running, served: Served, engine: FakeEngine) -> None:
    exact = b'{ "model" : "%s",  "messages":[], "n": 1.0e0 }' % REPO.encode()
    httpx.post(f"{running.url}/v1/chat/completions", headers={"x-api-key": served.plaintext}, content=exact)
    assert engine.requests[-1].body == exact
    other = b'{"model":"default","messages":[{"content":"\\ud800 \xc3\xa9"}]}'
    httpx.post(f"{running.url}/v1/chat/completions", headers={"x-api-key": served.plaintext}, content=other)
    assert engine.requests[-1].data == {"model": REPO, "messages": [{"content": "\ud800 é"}]}


def test_smuggled_requests_reach_no_engine(running: Running, served: Served, engine: FakeEngine) -> None:
    for evil in (
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /v1/models HTTP/1.1\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "X: a\rb\r\nContent-Length: 0\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", running.port), timeout=20) as raw:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-api-key: {served.plaintext}\r\n"
            raw.sendall((head + evil).encode())
            raw.shutdown(socket.SHUT_WR)
            assert b"HTTP/1.1 200" not in raw.recv(65536)
    assert not engine.requests


def test_two_hundred_streams_at_once(running: Running, served: Served, engine: FakeEngine) -> None:
    def one(_n: int) -> list[str | None]:
        with running.client(served.plaintext) as client:
            return words(stream(client))

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(one, range(200))) == [list(engines.WORDS)] * 200
