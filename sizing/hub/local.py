"""A model on this machine's disk, for `manage.py` alone: a folder as the hub would hold it, or one GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from sizing.facts import File
from sizing.hub.errors import Missing, Unsizeable
from sizing.hub.listing import format_of

_MOST_FILES: Final = 10_000
_LONGEST_DOCUMENT: Final = 64 * 1024 * 1024


@dataclass(frozen=True)
class Folder:
    """A Source. Raises Missing hub_file_not_found for a path that is not there."""

    path: Path

    @property
    def repo_id(self) -> str:
        return self.path.name

    @cached_property
    def files(self) -> Sequence[File]:
        if not self.path.exists():
            raise Missing("hub_file_not_found", repo=self.repo_id, path=str(self.path))
        if self.path.is_file():
            return (self._file(self.path.name),)
        found = []
        for each in sorted(self.path.rglob("*")):
            if each.is_file():
                found.append(self._file(each.relative_to(self.path).as_posix()))
            if len(found) > _MOST_FILES:
                raise Unsizeable("model_too_large", repo=self.repo_id)
        return tuple(found)

    @property
    def counts(self) -> Mapping[str, int]:
        return {}

    @property
    def told_config(self) -> Mapping[str, Any]:
        return {}

    def document(self, path: str) -> Any:
        place = self._root / path
        if place.stat().st_size > _LONGEST_DOCUMENT:
            raise Unsizeable("model_too_large", repo=self.repo_id, path=path)
        try:
            return json.loads(place.read_bytes())
        except (ValueError, RecursionError) as error:
            raise Unsizeable("model_malformed", repo=self.repo_id, path=path) from error

    def read(self, path: str, start: int, count: int) -> bytes:
        with (self._root / path).open("rb") as file:
            file.seek(start)
            return file.read(count)

    @property
    def _root(self) -> Path:
        return self.path.parent if self.path.is_file() else self.path

    def _file(self, name: str) -> File:
        return File(name, (self._root / name).stat().st_size, "", format_of(name))
