"""A person's words for a model, parsed into a typed reference. Pure.

`70B` is a size; `zai-org/GLM-5.3` or its address on the hub is a repository; `glm-5-3` is one of our own slugs.
An address is never fetched: only the repository id in it is taken, and asked of the configured hub.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Final
from urllib.parse import urlsplit

from sizing.memory import parse_size

HUB_HOSTS: Final = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
LONGEST: Final = 500

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPO_ID = re.compile(rf"{_PART}/{_PART}")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NOT_MODELS: Final = frozenset({"datasets", "spaces", "docs", "blog", "papers", "models", "api", "collections"})


@dataclass(frozen=True)
class Size:
    """A parameter count with no model behind it, in billions."""

    billions: Decimal


@dataclass(frozen=True)
class Repository:
    repo_id: str


@dataclass(frozen=True)
class Slug:
    slug: str


class NotAReference(ValueError):
    """The text names no model: neither a size, nor `owner/name`, nor an address of the hub, nor a slug."""


def parse(text: str, *, hub_hosts: Collection[str] = HUB_HOSTS) -> Size | Repository | Slug:
    """Raises NotAReference."""
    text = text.strip()
    if len(text) > LONGEST:
        raise NotAReference(text[:LONGEST])
    if size := parse_size(text):
        return Size(size)
    if "://" in text or text.split("/", 1)[0].lower() in hub_hosts:
        text = _from_address(text, hub_hosts)
    if _REPO_ID.fullmatch(text) and ".." not in text and "--" not in text:
        return Repository(text)
    if _SLUG.fullmatch(text):
        return Slug(text)
    raise NotAReference(text)


def _from_address(text: str, hub_hosts: Collection[str]) -> str:
    try:
        address = urlsplit(text if "://" in text else f"https://{text}")
        host = address.hostname
    except ValueError as error:
        raise NotAReference(text) from error
    parts = [part for part in address.path.split("/") if part]
    if address.scheme not in ("http", "https") or host not in hub_hosts or len(parts) < 2 or parts[0] in _NOT_MODELS:
        raise NotAReference(text)
    return "/".join(parts[:2])
