"""The OpenAI-compatible data path: a bare ASGI application (DESIGN section 7).

    key -> deployment -> machine's socket -> engine, and its answer back

A request touches memory only: no query, no thread, no Django view (directory.py keeps the memory true).

application   in front of Django (arrakis/asgi.py): answers /v1/...
standalone    its own process (python -m deploy.gateway): the same addresses, with and without /v1
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from django.conf import settings

from deploy.gateway import asked
from deploy.gateway.core import Core
from deploy.gateway.errors import Refused
from deploy.gateway.exchange import Disconnected, Exchange, Receive, Scope, Send
from deploy.gateway.keys import digest, looks_like_key
from deploy.gateway.relay import relay
from deploy.gateway.routes import DEFAULT_MODEL, Key, Route, Workspace
from deploy.gateway.usage import Tail, tokens_in

logger = logging.getLogger(__name__)

PREFIX: Final = "/v1"
MODELS: Final = "/models"
ENDPOINTS: Final = frozenset(
    {
        "/chat/completions",
        "/completions",
        "/embeddings",
        "/messages",
        "/messages/count_tokens",
        "/rerank",
        "/responses",
        "/score",
    }
)
"""What is passed to engines; all take JSON by POST. Whatever else an engine serves stays on its machine."""
ENDS_WITH_DONE: Final = frozenset({"/chat/completions", "/completions"})
BODY_SECONDS: Final = 120
ANSWER_SECONDS: Final = 3_600


class Gateway:
    """Begins on lifespan start-up, or, where the server runs none, with the first request."""

    def __init__(self, *, bare_paths: bool = False, hosts: Iterable[str] = ()) -> None:
        """`bare_paths`: without /v1 too; else only at these `hosts`, which serve nothing but the gateway."""
        self._bare_paths = bare_paths
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._core: Core | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def core(self) -> Core:
        """The running core of this loop."""
        loop = asyncio.get_running_loop()
        if self._core is None or self._loop is not loop:
            core = Core()
            core.start()
            self._core, self._loop = core, loop
        return self._core

    async def stop(self) -> None:
        """Write what was counted and close every connection."""
        core, self._core = self._core, None
        if core is not None:
            await core.stop()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.core()
                gc.collect()
                gc.freeze()  # Django's half a million objects are not walked again and again while streams run
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, exchange: Exchange) -> None:
        """The edge: whatever happens inside, the client gets an answer in the shape it knows."""
        try:
            await self._answer(exchange)
        except Refused as refused:
            await exchange.refuse(refused)
        except Disconnected:
            pass
        except asyncio.CancelledError:
            if not exchange.gone:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]  # (a coroutine runs in a task)
        except Exception:
            logger.exception("%s failed", exchange.id)
            await exchange.refuse(Refused("internal_error"))
        finally:
            exchange.close()

    async def _answer(self, exchange: Exchange) -> None:
        path, method = self._path(exchange), exchange.scope["method"]
        is_models = path == MODELS or path.startswith(f"{MODELS}/")
        if not is_models and path not in ENDPOINTS:
            raise Refused("not_found")
        if method == "OPTIONS":
            await exchange.preflight()
            return
        if method != ("GET" if is_models else "POST"):
            raise Refused("method_not_allowed", allowed="GET" if is_models else "POST")
        core = self.core()
        plaintext = exchange.credential()
        if not looks_like_key(plaintext):
            raise Refused("invalid_api_key")
        key = await core.directory.key(digest(plaintext))
        key.check(time.time(), exchange.address)
        with core.admission.key(key):
            workspace = await core.directory.workspace(key.workspace)
            if workspace.frozen:
                raise Refused("workspace_frozen")
            if is_models:
                await _list(exchange, key, workspace, path[len(MODELS) + 1 :])
            else:
                await _ask(core, exchange, key, workspace, path)

    def serves(self, scope: Scope) -> bool:
        """Whether a request is for the gateway: at its own hosts, or, where it has none, under /v1."""
        if not self._hosts:
            return bool(scope["path"].startswith(f"{PREFIX}/"))
        return next((_name(value) in self._hosts for key, value in scope["headers"] if key == b"host"), False)

    def _path(self, exchange: Exchange) -> str:
        """The address without /v1, or an empty text where it is none of ours."""
        path: str = exchange.scope["path"]
        if path.startswith(f"{PREFIX}/"):
            return path[len(PREFIX) :]
        return path if self._bare_paths or self._hosts else ""


def _name(host: bytes) -> bytes:
    """A Host header without its port."""
    return host.rpartition(b":")[0].lower() if host.rpartition(b":")[2].isdigit() else host.lower()


async def _list(exchange: Exchange, key: Key, workspace: Workspace, name: str) -> None:
    """GET /models, or one of them."""
    if name:
        await exchange.answer(200, json.dumps(_describe(workspace.choose(key, name), [])).encode())
        return
    rows = [_describe(route, [] if n else [DEFAULT_MODEL]) for n, route in enumerate(workspace.models(key))]
    await exchange.answer(200, json.dumps({"object": "list", "data": rows}).encode())


def _describe(route: Route, aliases: list[str]) -> dict[str, Any]:
    return {
        "id": route.repo_id,
        "object": "model",
        "created": route.created,
        "owned_by": "arrakis",
        "state": route.state,
        "aliases": aliases,
    }


async def _ask(core: Core, exchange: Exchange, key: Key, workspace: Workspace, path: str) -> None:
    """Read the request and choose the deployment, all within one deadline that is moved on between the two."""
    late = "request_timeout"
    try:
        async with asyncio.timeout(BODY_SECONDS) as deadline:
            with core.admission.body() as take:
                question = asked.parse(await exchange.body(take))
                late = "engine_timeout"
                deadline.reschedule(asyncio.get_running_loop().time() + ANSWER_SECONDS)
                route = workspace.choose(key, question.model)
                await _counted(core, exchange, key, route, path, question)
    except TimeoutError as error:
        raise Refused(late) from error


async def _counted(core: Core, exchange: Exchange, key: Key, route: Route, path: str, question: asked.Asked) -> None:
    """Ask the deployment, and count it however it ends."""
    tail, failed = Tail(), True
    try:
        route.check()
        with core.admission.deployment(route.deployment):
            await _forward(core, exchange, route, path, question.named(route.served_name), tail)
        failed = False
    finally:
        failed = failed and not exchange.gone
        core.counts.add(key.id, route.deployment, tokens_in(tail.bytes()), failed=failed)


async def _forward(core: Core, exchange: Exchange, route: Route, path: str, body: bytes, tail: Tail) -> None:
    """Ask the engine and pass its answer on; a client that goes away takes the engine's work with it."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request is served in a task")
    exchange.watch(task.cancel)
    core.exchanges[exchange] = task.cancel
    try:
        response = await core.upstreams.ask(route, f"{PREFIX}{path}", body, exchange.id)
        try:
            await relay(exchange, response, tail, model=route.repo_id, done=path in ENDS_WITH_DONE)
        finally:
            core.upstreams.done(route, response)
    finally:
        del core.exchanges[exchange]


application = Gateway(hosts=settings.GATEWAY_HOSTS)
standalone = Gateway(bare_paths=True)
