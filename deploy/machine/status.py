"""A machine's state line. Customers have root on machines: nothing in it is believed beyond its shape.

`parse_status` is pure; the tunnel processes call it for every line of the watch stream, host.read_status for one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from deploy.machine.errors import MachineProblem

MAX_LINE_BYTES: Final = 8 * 1024
MAX_BYTES: Final = 2**50
MAX_GPUS: Final = 16

STAGES: Final = frozenset({"installed", "downloading", "downloaded", "failed"})
ENGINE_STATES: Final = frozenset(
    {"none", "starting", "loading", "ready", "unhealthy", "crashed", "failed", "stopped"},
)
ERROR_CODES: Final = frozenset(
    {
        "hub_unreachable",
        "not_found",
        "gated",
        "checksum_mismatch",
        "disk_full",
        "truncated",
        "fetch_crashed",
        "engine_missing",
        "engine_crash_limit",
        "port_taken",
    },
)


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """One GPU as nvidia-smi on the machine reports it: percent, MiB."""

    utilization: int
    memory_used_mib: int
    memory_total_mib: int


@dataclass(frozen=True, slots=True)
class Status:
    """What the machine says of itself.

    `stage` is the download's: installed (not begun), downloading, downloaded, failed (see `error_code`).
    `engine_state`: none (never started), starting, loading, ready, unhealthy, crashed (waits for its restart),
    failed (gave up, see `error_code`), stopped. Bytes are bytes; `seen_at` is seconds by the MACHINE's clock: it
    shows that lines differ, nothing more. Time a line by when it arrived.
    """

    stage: str
    bytes_done: int
    bytes_total: int
    engine_port: int | None
    engine_state: str
    restarts: int
    exit_code: int | None
    seen_at: int
    error_code: str | None
    gpu: tuple[GpuStatus, ...] = ()


def parse_status(line: bytes) -> Status:
    """The state in one line of JSON, or MachineProblem("status_garbled", problem=...)."""
    if len(line) > MAX_LINE_BYTES:
        raise _garbled("size")
    try:
        data = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _garbled("json") from error
    if not isinstance(data, dict):
        raise _garbled("shape")
    return Status(
        stage=_choice(data, "stage", STAGES),
        bytes_done=_whole(data, "bytes_done", 0, MAX_BYTES),
        bytes_total=_whole(data, "bytes_total", 0, MAX_BYTES),
        engine_port=_optional(data, "engine_port", 1, 65535),
        engine_state=_choice(data, "engine_state", ENGINE_STATES),
        restarts=_whole(data, "restarts", 0, 1_000_000),
        exit_code=_optional(data, "exit_code", -255, 255),
        seen_at=_whole(data, "seen_at", 0, 2**40),
        error_code=None if data.get("error_code") is None else _choice(data, "error_code", ERROR_CODES),
        gpu=_gpus(data.get("gpu")),
    )


def _garbled(problem: str) -> MachineProblem:
    return MachineProblem("status_garbled", problem=problem)


def _whole(data: dict[str, Any], name: str, low: int, high: int) -> int:
    value = data.get(name)
    if type(value) is not int or not low <= value <= high:  # bool is an int to isinstance
        raise _garbled(name)
    return value


def _optional(data: dict[str, Any], name: str, low: int, high: int) -> int | None:
    return None if data.get(name) is None else _whole(data, name, low, high)


def _choice(data: dict[str, Any], name: str, allowed: frozenset[str]) -> str:
    value = data.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise _garbled(name)
    return value


def _gpus(value: Any) -> tuple[GpuStatus, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_GPUS or not all(isinstance(row, dict) for row in value):
        raise _garbled("gpu")
    return tuple(
        GpuStatus(
            utilization=_whole(row, "utilization", 0, 100),
            memory_used_mib=_whole(row, "memory_used_mib", 0, 10**8),
            memory_total_mib=_whole(row, "memory_total_mib", 0, 10**8),
        )
        for row in value
    )
