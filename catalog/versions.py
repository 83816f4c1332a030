"""The market's version: counted up in the same transaction as anything that changes a public page."""

from __future__ import annotations

from django.db.models import F

from catalog.models import Version


def bump() -> None:
    """Takes the lock on the version's row until the transaction ends, so call it last."""
    if not Version.objects.filter(pk=1).update(n=F("n") + 1):
        Version.objects.get_or_create(pk=1)
