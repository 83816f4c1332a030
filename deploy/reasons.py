"""Sentences for the reason codes that are stored: made for the reader, in their language, when they read (DESIGN 5.11).

`sentence(code, params)` says what happened, `suggestion(code, params)` what can be done about it, or nothing. The rows
are in deploy.sentences; amounts in params are written by the reader's language, by the name of the parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.functional import Promise, lazy
from django.utils.translation import gettext as _

from arrakis import localize
from deploy.sentences import EVENTS, REFUSALS, Row

ROWS: dict[str, Row] = {**REFUSALS, **EVENTS}

_USD = frozenset({"available", "ceiling", "cost", "hold", "needed", "next_price", "now", "was"})
_NUMBERS = frozenset(
    {"bits", "count", "keys", "least", "longest", "minutes", "most", "next_count", "restarts", "status"}
)
_LONGEST = 200


def sentence(code: str, params: Mapping[str, Any] | None = None) -> str:
    """What happened, as one or two sentences; lazy, so that it may be made outside of any request."""
    return _lazy(_sentence, code, params)


def suggestion(code: str, params: Mapping[str, Any] | None = None) -> str:
    """What the reader can do about it; empty where there is nothing. Lazy."""
    return _lazy(_suggestion, code, params)


def known(code: str) -> bool:
    return code in ROWS


def _lazy(make: Any, code: str, params: Mapping[str, Any] | None) -> str:
    made: str = lazy(make, str)(code, dict(params or {}))
    return made


def _sentence(code: str, params: dict[str, Any]) -> str:
    row = ROWS.get(code)
    if row is None:
        return _("Something happened for which there is no sentence yet: %(code)s.") % {"code": code[:_LONGEST]}
    return str(row.sentence) % _Shown(params)


def _suggestion(code: str, params: dict[str, Any]) -> str:
    row = ROWS.get(code)
    if row is None or row.suggestion is None:
        return ""
    if row.needs and not params.get(row.needs):
        return str(row.otherwise or "")
    return str(row.suggestion) % _Shown(params)


class _Shown(dict[str, str]):
    """Parameters as the reader's language writes them; one that is missing is a question mark, never an error."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__({name: _shown(name, value) for name, value in params.items()})

    def __missing__(self, name: str) -> str:
        return "?"


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Promise):
        return str(value)
    if name in _USD or name.endswith("_usd"):
        return _figure(localize.money, value)
    if name.endswith("_gb"):
        return _figure(localize.memory, value)
    if name.endswith("_bytes"):
        return _figure(lambda number: localize.data(int(number)), value)
    if name in _NUMBERS:
        return _figure(localize.number, value)
    return str(value)[:_LONGEST]


def _figure(write: Any, value: Any) -> str:
    try:
        return str(write(Decimal(str(value))))
    except (InvalidOperation, ValueError):
        return str(value)[:_LONGEST]
