"""`{% load localize %}`: the functions of `arrakis.localize` as filters in the reader's language.

A missing value shows nothing. `{{ seen_at|age }}` counts from now, or from a time given: `{{ seen_at|age:now }}`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone

from arrakis import localize

register = template.Library()


def _filter(function: Callable[..., str]) -> None:
    def shown(value: Any) -> str:
        return "" if value is None or value == "" else function(value)

    shown.__doc__ = function.__doc__
    register.filter(function.__name__, shown)


for _function in (
    localize.data,
    localize.day,
    localize.duration,
    localize.gpu_memory,
    localize.memory,
    localize.moment,
    localize.money,
    localize.number,
    localize.parameters,
    localize.per_gpu_hour,
    localize.per_hour,
    localize.percent,
    localize.plain,
):
    _filter(_function)


@register.filter
def age(seen: datetime | None, now: datetime | None = None) -> str:
    return "" if seen is None else localize.age(seen, now or timezone.now())


@register.filter
def progress(done: int | None, total: int | None) -> str:
    """`{{ done|progress:total }}`"""
    return "" if done is None else localize.progress(done, total or 0)
