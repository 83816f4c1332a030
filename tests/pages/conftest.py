"""What tests of pages stand on: the known models and GPUs, a market, a client, parsed HTML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from catalog.models import Provider

DATA = Path(__file__).parent.parent / "data"
SNAPSHOTS = {
    "fr": ("offers-2026-10-31T1740Z.jsonl", "2026-10-31T17:40:00Z"),
    "pt-br": ("offers-2026-10-31T1652Z.jsonl", "2026-10-31T16:52:00Z"),
}


@pytest.fixture
def market(db: None) -> Callable[[str], None]:
    """Imports a language's snapshot, as an operator does."""

    def load(lang: str = "fr", *, is_sample: bool = True) -> None:
        name, at = SNAPSHOTS[lang]
        call_command("import_offers", str(DATA / name), "--provider", "snapshot", "--at", at)
        Provider.objects.filter(key="snapshot").update(is_sample=is_sample)

    return load


@pytest.fixture
def visitor() -> Client:
    return Client()
