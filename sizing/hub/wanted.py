"""A person's words for a model on the hub, with the revision and the file that its address may hold. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from sizing.references import HUB_HOSTS, NotAReference, Repository, parse

_REVISION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_PATH: Final = re.compile(r"[\w .()+@=,/-]{1,500}")
_VIEWS: Final = frozenset({"tree", "blob", "resolve", "raw", "commit", "blame", "edit"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A repository; `revision` empty for its main branch, `path` empty unless one file was pointed at."""

    repo_id: str
    revision: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        if self.revision and not _is_plain(_REVISION, self.revision):
            raise NotAReference(self.revision)
        if self.path and not _is_plain(_PATH, self.path):
            raise NotAReference(self.path)


def wanted(text: str, *, hub_hosts: Collection[str] = HUB_HOSTS) -> Wanted:
    """Reads `owner/name`, `owner/name@revision`, or an address such as `.../blob/main/model.Q4_K_M.gguf?download=1`.

    Raises NotAReference, for sizes and slugs too.
    """
    text = text.strip()
    if "://" not in text and text.split("/", 1)[0].lower() not in hub_hosts:
        name, _, revision = text.partition("@")
        return Wanted(_repository(name, hub_hosts), revision)
    repo_id = _repository(text, hub_hosts)
    parts = [part for part in urlsplit(text if "://" in text else f"https://{text}").path.split("/") if part][2:]
    if len(parts) < 2 or parts[0] not in _VIEWS:
        return Wanted(repo_id)
    path = "/".join(unquote(part) for part in parts[2:])
    return Wanted(repo_id, unquote(parts[1]), path if path.lower().endswith(".gguf") else "")


def _repository(text: str, hub_hosts: Collection[str]) -> str:
    found = parse(text, hub_hosts=hub_hosts)
    if not isinstance(found, Repository):
        raise NotAReference(text)
    return found.repo_id


def _is_plain(pattern: re.Pattern[str], text: str) -> bool:
    return bool(pattern.fullmatch(text)) and not any(part in {"", ".", ".."} for part in text.split("/"))
