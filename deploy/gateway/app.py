"""The OpenAI-compatible data path: a bare ASGI application (DESIGN section 7)."""

from __future__ import annotations

from typing import Any


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    raise RuntimeError("not served yet")
