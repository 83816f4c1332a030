"""`{% load catalog %}`: names of places and makers."""

from __future__ import annotations

from typing import Final

from django import template

from arrakis.localize.languages import language

register = template.Library()

MAKERS: Final = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


@register.filter
def region(code: str) -> str:
    """A country's code as its name (`SE` -> Sweden, Suède, Suécia); a provider's own region as it came."""
    return str(language().locale.territories.get(code, code)) if len(code) == 2 else code


@register.filter
def maker(key: str) -> str:
    return MAKERS.get(key, key)
