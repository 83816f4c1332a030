"""Errors of engines, said again in OpenAI's shape. Pure.

    llama.cpp, vLLM   {"error": {"message", "type", "param"?, "code"}}
    SGLang            {"object": "error", "message", "type", "param", "code"}
    FastAPI           {"detail": "Not Found"} or {"detail": [...]};   both, without a key: {"error": "Unauthorized"}

Only a sentence is taken over, cleaned and cut, and only from JSON: machines are not trusted.
"""

from __future__ import annotations

import json
from typing import Any, Final

from deploy.gateway.errors import Refused, shorten

BODY_MOST_BYTES: Final = 64 * 1024
MESSAGE_MOST: Final = 2_000
_TOO_LONG: Final = ("exceed_context_size_error",)
_TOO_LONG_WORDS: Final = ("context length", "context size", "maximum model length")
PASSED: Final = frozenset({400, 404, 405, 413, 422})
"""Statuses that blame the request: the caller sees the engine's sentence."""


def refused(status: int, content_type: str, body: bytes, *, model: str, retry_after: str = "") -> Refused:
    """What the client is told for an engine's answer that is not a success."""
    error = _error(body) if content_type in ("application/json", "application/problem+json") else None
    if status == 503:
        return Refused("deployment_not_ready", model=model, stage="loading")
    if error is None:
        return Refused("bad_gateway")
    message = shorten(_message(error), MESSAGE_MOST)
    if status == 429:
        seconds = int(retry_after) if retry_after.isdigit() and len(retry_after) <= 3 else None
        return Refused("rate_limit_exceeded", message=message or "The engine is busy.", retry_after=seconds)
    if status == 501 or (status in (404, 405) and not _names_model(error)):
        return Refused("unsupported_by_engine", message=message or "The engine does not do that.")
    if status == 404:
        return Refused("no_model", model=model)
    if status in PASSED:
        return _blame(error, message or "The engine refused the request.", status)
    if status == 500:
        return Refused("engine_error", message=message or "The engine failed.")
    return Refused("bad_gateway")


def _blame(error: dict[str, Any], message: str, status: int) -> Refused:
    long = error.get("type") in _TOO_LONG or any(words in message.lower() for words in _TOO_LONG_WORDS)
    if long and status in (400, 413):
        return Refused("context_length_exceeded", message=message)
    return Refused("invalid_request", message=message, status=422 if status == 422 else None)


def _error(body: bytes) -> dict[str, Any] | None:
    """The part that holds the message, whichever engine's shape it is."""
    try:
        data = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    inner = data.get("error", data)
    return inner if isinstance(inner, dict) else {"message": inner}


def _message(error: dict[str, Any]) -> str:
    message = error.get("message", error.get("detail"))
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = message[0].get("msg")
    return message if isinstance(message, str) else ""


def _names_model(error: dict[str, Any]) -> bool:
    return error.get("param") == "model" or error.get("code") == "model_not_found"
