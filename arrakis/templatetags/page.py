"""`{% load page %}`: what base.html and its components need to know of the page they stand on."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.conf import settings
from django.template.context import RequestContext
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language

from arrakis import pages

register = template.Library()


@register.simple_tag
def site_name() -> str:
    return settings.SITE_NAME


@register.simple_tag
def html_lang() -> str:
    return pages.language_tag(get_language() or settings.LANGUAGE_CODE)


@register.simple_tag(takes_context=True)
def languages(context: RequestContext) -> list[dict[str, Any]]:
    """The published languages, each with this page's address in it."""
    path = context["request"].get_full_path() if "request" in context else "/"
    return [
        {
            "code": code,
            "tag": pages.language_tag(code),
            "name": name,
            "address": pages.address_in(path, code),
            "absolute": pages.absolute(pages.address_in(path, code)),
            "current": code == get_language(),
        }
        for code, name in settings.LANGUAGES
    ]


@register.simple_tag(takes_context=True)
def canonical(context: RequestContext) -> str:
    return pages.absolute(context["request"].path)


@register.simple_tag(takes_context=True)
def current(context: RequestContext, part: str) -> SafeString:
    """`aria-current` for the link to `/L/<part>/`, where this page is it or lies under it."""
    if "request" not in context:
        return SafeString("")
    path, here = context["request"].path, f"/{get_language()}/{part}/"
    if not path.startswith(here):
        return SafeString("")
    return format_html(' aria-current="{}"', "page" if path == here else "true")


@register.simple_tag(takes_context=True)
def json_ld(context: RequestContext, data: dict[str, Any] | list[Any]) -> SafeString:
    """Structured data for search engines: data, which no policy for scripts stops and no browser runs."""
    text = json.dumps(data, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return mark_safe(f'<script type="application/ld+json">{text}</script>')  # noqa: S308  (escaped above)
