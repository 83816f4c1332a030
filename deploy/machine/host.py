"""What Arrakis does on a machine. Every function opens one connection, does one thing, and may be called again.

All are synchronous, bounded in time, and raise only deploy.machine.errors. A label is `arrakis-<installation>-<id>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.engines.base import EngineSpec
from deploy.machine.ssh import Target
from deploy.machine.status import Status


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi names it; `driver` is its version as text, `compute_capability` as "9.0" or None."""

    name: str
    memory_mib: int
    driver: str
    compute_capability: str | None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What is there before anything is installed. Memory and disk in bytes; `python` is "3.11.7" or None."""

    os: str
    arch: str
    cpu_count: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: tuple[Gpu, ...]
    python: str | None


@dataclass(frozen=True, slots=True)
class FetchFile:
    """One file of a repository. `sha256` for files kept in large-file storage, `git_sha1` (blob id) for the others."""

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to download: from `endpoint` (as the MACHINE reaches it), `repo_id` at `revision` (a commit), `files`."""

    endpoint: str
    repo_id: str
    revision: str
    files: tuple[FetchFile, ...]


def claim(target: Target, label: str, public_key: str) -> bool:
    """Take the label on the machine and let `public_key` (the machine's own admin key) log in.

    The folder's mkdir is the lock: of any number of calls at once exactly one returns True (created), the others and
    every later one False (it was there already). The key is there after either.
    """
    raise NotImplementedError


def exists(target: Target, label: str) -> bool:
    """Whether anything of that label is there: its folder, a key line or a process."""
    raise NotImplementedError


def list_labels(target: Target) -> list[str]:
    """Every label of any installation that has a folder there, sorted."""
    raise NotImplementedError


def check(target: Target) -> MachineFacts:
    """Look before installing. Needs only sh there."""
    raise NotImplementedError


def install(target: Target, label: str, engine: EngineSpec, tunnel_public_key: str) -> int:
    """Put the supervisor there, write the engine's command, let the tunnel's key in. Returns the engine's port.

    Called again: the same port, the new command. The tunnel's key may forward to 127.0.0.1:port and read the state
    stream, nothing else. MachineProblem("no_base") when the label was not claimed, "python_missing" without Python 3.8.
    """
    raise NotImplementedError


def start_fetch(target: Target, label: str, plan: FetchPlan, token: str | None = None) -> None:
    """Begin, or go on with, the download in the background. `token` goes by stdin only. Running already: no change."""
    raise NotImplementedError


def start_engine(target: Target, label: str) -> None:
    """Keep the engine up from now on. Running already: no change."""
    raise NotImplementedError


def stop_engine(target: Target, label: str) -> None:
    """End the engine with its whole process group, and do not restart it."""
    raise NotImplementedError


def restart_engine(target: Target, label: str) -> None:
    """Stop and start, with a fresh count of restarts. The download stays."""
    raise NotImplementedError


def read_status(target: Target, label: str) -> Status:
    """The state now. MachineProblem("status_garbled") for nonsense, "no_base" when nothing is installed."""
    raise NotImplementedError


def read_log(target: Target, label: str, lines: int = 200) -> str:
    """The engine's last lines: at most 1,000 and 256 KiB, no control characters or terminal codes, keys blanked."""
    raise NotImplementedError


def install_customer_keys(target: Target, label: str, keys: Mapping[str, str]) -> None:
    """Make the customer's keys on the machine exactly these: id -> public key as pasted (id: letters, digits, `-`)."""
    raise NotImplementedError


def remove_customer_keys(target: Target, label: str) -> None:
    """Take every customer key of the label away, and end the sessions they opened where the machine marks them."""
    raise NotImplementedError


def wipe(target: Target, label: str) -> None:
    """Leave nothing: no process, folder or key of the label; returns only after looking again. Absent is success.

    MachineProblem("wipe_incomplete", left=[...]) when something stays.
    """
    raise NotImplementedError
