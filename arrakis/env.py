"""Settings from the environment, loud on mistakes (12-factor)."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    """`name`, or the content of the file that `name_FILE` points to (for secrets mounted as files)."""
    if name in os.environ:
        return os.environ[name].strip()
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE points to {path}, which cannot be read: {error}") from error
    return default


def flag(name: str, default: bool) -> bool:
    value = text(name)
    if not value:
        return default
    if value.lower() in {"1", "true", "yes", "on"}:
        return True
    if value.lower() in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}.")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    value = text(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from error
    if not low <= number <= high:
        raise ImproperlyConfigured(f"{name} must be between {low} and {high}, not {number}.")
    return number


def words(name: str, default: list[str]) -> list[str]:
    """A comma-separated list."""
    value = text(name)
    return [word.strip() for word in value.split(",") if word.strip()] if value else default
