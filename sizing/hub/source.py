"""Where the files of one model are read: a repository at a commit, or a folder for `manage.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sizing.facts import File
from sizing.hub.client import Client


class Source(Protocol):
    """`counts`: elements by dtype as the hub counted them, empty where it did not."""

    @property
    def repo_id(self) -> str: ...
    @property
    def files(self) -> Sequence[File]: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def told_config(self) -> Mapping[str, Any]:
        """What of config.json is known without reading it."""
        ...

    def document(self, path: str) -> Any:
        """A JSON file. Raises Unsizeable model_malformed, and what stands in the way of reading it."""
        ...

    def read(self, path: str, start: int, count: int) -> bytes:
        """That part, shorter at the file's end."""
        ...


@dataclass(frozen=True)
class Repository:
    client: Client
    repo_id: str
    commit: str
    files: Sequence[File]
    counts: Mapping[str, int] = field(default_factory=dict)
    told_config: Mapping[str, Any] = field(default_factory=dict)

    def document(self, path: str) -> Any:
        return self.client.document(self.repo_id, self.commit, path)

    def read(self, path: str, start: int, count: int) -> bytes:
        return self.client.part(self.repo_id, self.commit, path, start, count)
