"""`/robots.txt` and `/sitemap.xml`: what search engines may read, in every published language."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import quoteattr

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from arrakis import pages

_STATIC: Final = ("", "gpus/", "models/", "guides/", "guides/gpu-memory/", "guides/deploy/")


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    lines = ["User-agent: *", "Disallow: /admin/", "Disallow: /api/", "Disallow: /v1/"]
    lines += [f"Disallow: /{code}/console/" for code, _name in settings.LANGUAGES]
    lines.append(f"Sitemap: {settings.SITE_URL}/sitemap.xml")
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")


@require_safe
def sitemap(request: HttpRequest) -> HttpResponse:
    urls = "".join(_url(path) for path in [*_STATIC, *_things()])
    return HttpResponse(
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        f'xmlns:xhtml="http://www.w3.org/1999/xhtml">{urls}</urlset>\n',
        content_type="application/xml",
    )


def _things() -> Iterable[str]:
    # By name: the kernel imports no app that stands on it.
    gpus = apps.get_model("catalog", "Gpu").objects.filter(is_listed=True, kind="gpu")
    models = apps.get_model("sizing", "HubModel").objects.filter(is_listed=True)
    yield from (f"gpus/{key}/" for key in gpus.values_list("key", flat=True))
    yield from (f"models/{slug}/" for slug in models.values_list("slug", flat=True))


def _url(path: str) -> str:
    codes = [code for code, _name in settings.LANGUAGES]
    links = "".join(
        f'<xhtml:link rel="alternate" hreflang="{pages.language_tag(code)}" href={quoteattr(_address(code, path))}/>'
        for code in codes
    )
    return "".join(f"<url><loc>{_address(code, path)}</loc>{links}</url>" for code in codes)


def _address(code: str, path: str) -> str:
    return pages.absolute(f"/{code}/{path}")
