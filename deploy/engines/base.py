"""The contract of an engine, and the values it works on. Pure: no Django, no network, no clock.

A plan is written with two placeholders that only the machine can fill: `PORT`, the loopback port chosen there, and
`MODEL_DIR`, the folder the weights are fetched into. `deploy.machine.host.install` replaces them, argument by argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from arrakis.errors import BadRequest

PORT: Final = "{port}"
BASE: Final = "{base}"
MODEL_DIR: Final = "{base}/model"

HostKind = Literal["gpu", "cpu"]


class BadArgument(BadRequest):
    """An engine argument that a customer may not set.

    `code`: engine_argument_refused (params: argument), engine_argument_value (params: argument),
    engine_argument_stray (params: argument; a value that belongs to no argument).
    """


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What to run. `model` is a path on the machine: MODEL_DIR, or MODEL_DIR + "/" + the GGUF file's path."""

    model: str
    served_name: str
    context: int
    parallel: int = 1
    gpu_count: int = 0
    tensor_parallel: int = 1
    host_kind: HostKind = "gpu"
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What the supervisor on the machine needs: the command with its placeholders, its environment, where to ask."""

    key: str
    command: tuple[str, ...]
    health_path: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One kind of GPU on a machine; `compute_capability` as 89 for 8.9, `driver` as its major number."""

    name: str
    count: int
    memory_mib: int
    compute_capability: int | None = None
    driver: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the files of a model are: which formats its repository holds."""

    has_safetensors: bool
    has_gguf: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an engine cannot run a model on a machine; a code that is stored and rendered for its reader."""

    code: str
    params: Mapping[str, str | int] = field(default_factory=dict)


class Engine(ABC):
    """One engine. Stateless; ENGINES holds the only instance of each."""

    key: str
    name: str
    health_path: str = "/health"
    #: argument -> how many values it takes at most (0 for a switch); everything else is refused
    allowed_args: Mapping[str, int]

    def spec(self, plan: LaunchPlan) -> EngineSpec:
        return EngineSpec(self.key, tuple(self.launch_command(plan)), self.health_path, self.env(plan))

    @abstractmethod
    def launch_command(self, plan: LaunchPlan) -> list[str]:
        """The whole command, listening on 127.0.0.1 at PORT. `plan.args` go last, and were checked by `check_args`."""

    @abstractmethod
    def env(self, plan: LaunchPlan) -> dict[str, str]:
        """What is set besides the machine's own environment. Never a secret."""

    @abstractmethod
    def parse_progress(self, line: str) -> str | None:
        """A log line -> loading_weights | preparing | warming_up | ready, or None where it says nothing of that."""

    @abstractmethod
    def refusal(self, host_kind: HostKind, gpu: GpuFacts | None, model: ModelFacts) -> Refusal | None:
        """Why it cannot run there, or None. Codes: engine_needs_gpu, engine_needs_gguf, engine_needs_safetensors,
        engine_gpu_too_old (params: needs), engine_driver_too_old (params: needs, found)."""

    def ready(self, status_code: int, body: bytes) -> bool:
        """Whether an answer at `health_path` means that requests will be answered."""
        return status_code == 200

    def check_args(self, args: Sequence[str]) -> tuple[str, ...]:
        """A customer's arguments, split as a shell would, or BadArgument naming the one that is not allowed."""
        return check_args(args, self.allowed_args)


def cuda_refusal(
    host_kind: HostKind, gpu: GpuFacts | None, model: ModelFacts, *, capability: int, driver: int
) -> Refusal | None:
    """What engines that need CUDA and safetensors refuse: `capability` as 75 for 7.5, `driver` as its major number."""
    if host_kind == "cpu" or gpu is None:
        return Refusal("engine_needs_gpu")
    if not model.has_safetensors:
        return Refusal("engine_needs_safetensors")
    if gpu.compute_capability is not None and gpu.compute_capability < capability:
        return Refusal("engine_gpu_too_old", {"needs": f"{capability // 10}.{capability % 10}"})
    if gpu.driver is not None and gpu.driver < driver:
        return Refusal("engine_driver_too_old", {"needs": driver, "found": gpu.driver})
    return None


def check_args(args: Sequence[str], allowed: Mapping[str, int]) -> tuple[str, ...]:
    """See Engine.check_args. `--flag=value` and `--flag value` are both understood."""
    left = 0
    for argument in args:
        if "{port}" in argument or "{base}" in argument or not argument.isprintable() or len(argument) > 4096:
            raise BadArgument("engine_argument_value", argument=argument[:80])
        if argument.startswith("-") and not _is_number(argument):
            left = _begin(argument, allowed)
        elif left == 0:
            raise BadArgument("engine_argument_stray", argument=argument[:80])
        else:
            left -= 1
    return tuple(args)


def _begin(argument: str, allowed: Mapping[str, int]) -> int:
    name, has_value, _ = argument.partition("=")
    if name not in allowed:
        raise BadArgument("engine_argument_refused", argument=name[:80])
    if not has_value:
        return allowed[name]
    if allowed[name] == 0:
        raise BadArgument("engine_argument_value", argument=name)
    return 0


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
