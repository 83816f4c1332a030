"""Addresses of models. Pure.

Lower case, every run of other than letters and digits becomes `-`: `GLM-5.3` -> `glm-5-3`. The first model of a name
gets it plain, later ones are `owner-name`; a slug once given is never given to another model.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

RESERVED: Final = frozenset({"check"})
LONGEST: Final = 140


def slugify(text: str) -> str:
    """`Llama-3.1-8B-Instruct` -> `llama-3-1-8b-instruct`. Empty where nothing of `text` is a letter or digit."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def model_slug(repo_id: str, taken: Collection[str]) -> str:
    """The slug of `owner/name`; `taken` are all slugs in use or redirecting.

    Raises ValueError for a repository id without a usable letter.
    """
    owner, _slash, name = repo_id.rpartition("/")
    plain = slugify(name)[:LONGEST].rstrip("-")
    full = slugify(f"{owner}-{name}")[:LONGEST].rstrip("-")
    if not full:
        raise ValueError(f"no address can be made of {repo_id!r}")
    for slug in (plain, full):
        if slug and slug not in RESERVED and slug not in taken:
            return slug
    return _numbered(full, taken)


def _numbered(base: str, taken: Collection[str]) -> str:
    n = 2
    while (slug := f"{base[: LONGEST - len(str(n)) - 1]}-{n}") in taken or slug in RESERVED:
        n += 1
    return slug
