"""Identifiers shown outside: UUID version 7, so that newer rows sort later and indexes stay dense."""

from __future__ import annotations

import uuid

import uuid_utils.compat


def new_id() -> uuid.UUID:
    return uuid_utils.compat.uuid7()
