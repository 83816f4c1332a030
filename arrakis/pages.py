"""What every public page shares: it reads no session, and answers "not changed" without being rendered.

A page is the same for all readers of one language, so its ETag is made of what it depends on: the market's version
and figures (they also change by growing stale), the language, the release. The account corner is fetched apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.translation import get_language

# While developing, templates change without a release: a restart is a new one.
_RELEASE: Final = settings.RELEASE if settings.RELEASE != "dev" else f"dev-{time_ns()}"


def page(
    request: HttpRequest, template: str, context: Callable[[], Mapping[str, Any]], *, version: object, status: int = 200
) -> HttpResponseBase:
    """Render `template`, or answer 304 without asking for its context. `version`: repr() names all it depends on."""
    etag = _etag(version)
    unchanged = get_conditional_response(request, etag=etag) if status == 200 else None
    response = unchanged or render(request, template, dict(context()), status=status)
    if status == 200:
        response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "public, no-cache"
    return response


def address_in(path: str, language: str) -> str:
    """The same page, query included, in another language: `/en/gpus/?a=1` -> `/fr/gpus/?a=1`."""
    _empty, _slash, rest = path.lstrip("/").partition("/")
    first = path.lstrip("/").split("/", 1)[0].split("?")[0]
    if first not in {code for code, _name in settings.LANGUAGES}:
        return f"/{language}/"
    return f"/{language}/{rest}"


def absolute(path: str) -> str:
    """`path` on the installation's own address, for links that leave the page."""
    return f"{settings.SITE_URL}{urlsplit(path).path}"


def language_tag(code: str) -> str:
    """BCP 47, as HTML's lang and hreflang want it: `pt-br` -> `pt-BR`, `zh-hans` -> `zh-Hans`."""
    language, _dash, rest = code.partition("-")
    return f"{language}-{rest.upper() if len(rest) == 2 else rest.title()}" if rest else language


def not_found_page(request: HttpRequest) -> HttpResponse:
    return render(request, "404.html", status=404)


def _etag(version: object) -> str:
    digest = hashlib.sha256(f"{_RELEASE}|{get_language()}|{version!r}".encode()).hexdigest()[:20]
    return f'W/"{digest}"'
