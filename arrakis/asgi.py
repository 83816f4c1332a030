"""The web process: the gateway, a bare ASGI application, and Django for the rest (DESIGN section 7).

The gateway answers `/v1/*`, or, where GATEWAY_HOSTS names hosts of its own, everything there and nothing elsewhere.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")
_django = get_asgi_application()

from deploy.gateway.app import application as _gateway  # noqa: E402  (models need Django set up first)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan" or _gateway.serves(scope):
        await _gateway(scope, receive, send)
    else:
        await _django(scope, receive, send)
