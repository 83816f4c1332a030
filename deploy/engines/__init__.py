"""The engines a deployment can run: what starts them, how they say that they are ready, what they refuse. Pure."""

from __future__ import annotations

from typing import Final

from deploy.engines.base import Engine
from deploy.engines.llamacpp import LlamaCpp
from deploy.engines.sglang import Sglang
from deploy.engines.vllm import Vllm

ENGINES: Final[dict[str, Engine]] = {engine.key: engine for engine in (Vllm(), Sglang(), LlamaCpp())}
