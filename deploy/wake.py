"""Telling the workers that something is due, once the transaction is committed. A hint: the sweep finds it anyway."""

from __future__ import annotations

import logging
from uuid import UUID

from django.db import transaction
from kombu.exceptions import OperationalError

from arrakis.celery import app

logger = logging.getLogger(__name__)


def replica(pk: UUID) -> None:
    """Have the replica moved on."""
    transaction.on_commit(lambda: _send("deploy.tasks.advance", pk))


def machine(pk: UUID) -> None:
    """Have the machine released."""
    transaction.on_commit(lambda: _send("deploy.tasks.release", pk))


def _send(task: str, pk: UUID) -> None:
    try:
        app.send_task(task, args=(str(pk),), retry=False)
    except OperationalError:
        logger.warning("%s %s was not sent; the sweep will find it", task, pk)
