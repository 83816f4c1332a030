"""Every word of every public page reaches the translator: with each message bracketed, nothing is left outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from arrakis.localize.languages import language
from catalog.models import Gpu
from sizing.models import HubModel
from tests.pages.parsing import parse
from tests.pages.test_pages import QUERIES, STATUS

OPEN, CLOSE = "⟦", "⟧"
SPOKEN_ATTRIBUTES = ("aria-label", "placeholder", "title", "alt", "data-label", "data-tabs", "data-done")
# What no language changes: names, and figures as localize writes them.
FIXED = [
    *(name for _code, name in settings.LANGUAGES), "Arrakis", "snapshot", "vLLM", "SGLang", "llama.cpp", "owner/model",
    "LoRA", "QLoRA", "NVIDIA", "EN", "FP8", "BF16", "Llama 3.1", "Llama 3.3", "Qwen2.5", "nobody/nothing", "qwen",
    "what is this", "ZeRO, arXiv:1910.02054", "arXiv:2106.09685", "arXiv:2305.14314", "other", "apache-2.0",
]  # fmt: skip
FIGURE = re.compile(
    r"\$?[\d.,]+[\s\u202f\xa0]?(?:GB|MB|[KMBT]\b|%)?|August 25, 2026|November 1, 2024|Oct 31, 2026, .*UTC"
)


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The functions behind every way of asking for a translation, lazy ones and template tags included.
    trans: Any = translation._trans  # type: ignore[attr-defined]
    for name in ("gettext", "pgettext", "ngettext"):
        real = getattr(trans, name)
        monkeypatch.setattr(trans, name, lambda *args, real=real: f"{OPEN}{real(*args)}{CLOSE}")


def outside(texts: Iterable[str]) -> Iterator[str]:
    """What stands in no bracket; a bracket may open in one text and close in a later one."""
    depth = 0
    for child in texts:
        kept = ""
        for char in child:
            depth += (char == OPEN) - (char == CLOSE)
            kept += char if depth == 0 and char != CLOSE else " "
        yield kept


@pytest.mark.parametrize("path", sorted({*QUERIES, *STATUS}))
def test_no_word_is_left_out(path: str, market: Callable[[], None], visitor: Client, bracketed: None) -> None:
    market()
    page = parse(visitor.get(f"/en/{path}").content.decode())
    names = [*language("en").locale.territories.values()]  # countries, by CLDR as figures are
    for gpu in Gpu.objects.all():
        names += [gpu.name, gpu.summary]
    for model in HubModel.objects.all():
        names += [model.name, model.repo_id, model.summary]
    known = sorted({*FIXED, *names} - {""}, key=len, reverse=True)
    spoken = [it.attributes[name] for it in page.walk() for name in SPOKEN_ATTRIBUTES if name in it.attributes]
    left = set()
    for bare in [*outside(page.walk_text()), *outside(spoken)]:
        for name in known:
            bare = bare.replace(name, " ")
        # Countries' codes, and CLDR's "A or B".
        bare = re.sub(r"\b[A-Z]{2}\b|,? or\b", " ", FIGURE.sub(" ", bare))
        if re.search(r"[^\W\d_]{2,}", bare):
            left.add(" ".join(bare.split()))
    assert not left
