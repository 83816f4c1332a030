"""vLLM and SGLang for real, by the very command a machine gets, where their CPU builds are installed.

    VLLM_COMMAND, SGLANG_COMMAND   what stands for `vllm` or `sglang` here, with its own Python before it if need be
    ENGINE_MODEL                   a folder with SmolLM2-135M-Instruct in safetensors

They are gigabytes, and SGLang runs on a CPU only with stand-ins for its kernels; without them the tests say so.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from deploy.engines import ENGINES
from deploy.engines.base import PORT, LaunchPlan

pytestmark = pytest.mark.engines

SERVED = "HuggingFaceTB/SmolLM2-135M-Instruct"
READY_SECONDS = 400
ON_A_CPU = {
    "vllm": ["--enforce-eager", "--max-num-seqs", "4"],
    "sglang": ["--mem-fraction-static", "0.2", "--max-total-tokens", "8192"],
}
# What no customer may set, and a machine without a GPU needs.
BESIDE = {
    "vllm": [],
    "sglang": [
        *("--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
        *(
            "--cuda-graph-backend-decode=disabled",
            "--cuda-graph-backend-prefill=disabled",
            "--disable-overlap-schedule",
        ),
    ],
}
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"}


class Running(NamedTuple):
    key: str
    url: str


@pytest.fixture(params=["vllm", "sglang"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    key, model = str(request.param), os.environ.get("ENGINE_MODEL")
    command = os.environ.get(f"{key.upper()}_COMMAND")
    if not command or not model:
        pytest.skip(f"{ENGINES[key].name} is not installed here: set {key.upper()}_COMMAND and ENGINE_MODEL")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plan = LaunchPlan(model, SERVED, 2048, args=ENGINES[key].check_args(ON_A_CPU[key]))
    words = [word.replace(PORT, str(port)) for word in ENGINES[key].launch_command(plan)]
    log = tmp_path / "engine.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*shlex.split(command), *words[1:], *BESIDE[key]],
            env={**os.environ, **ENGINES[key].env(plan), **ENVIRONMENT},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_ready(key, f"http://127.0.0.1:{port}", process, log)
        assert "ready" in {ENGINES[key].parse_progress(line) for line in log.read_text(errors="replace").splitlines()}
        yield Running(key, f"http://127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def wait_until_ready(key: str, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            answer = httpx.get(url + ENGINES[key].health_path, timeout=10)
            if ENGINES[key].ready(answer.status_code, answer.content):
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"{key} did not come up:\n{log.read_text(errors='replace')[-4000:]}")


def test_an_engine_answers_under_the_name_it_was_given(engine: Running) -> None:
    listed = httpx.get(f"{engine.url}/v1/models").json()
    assert SERVED in [row["id"] for row in listed["data"]]
    asked = {"model": SERVED, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    answer = httpx.post(f"{engine.url}/v1/chat/completions", json=asked, timeout=120).json()
    assert answer["choices"][0]["message"]["content"]
    assert 0 < answer["usage"]["completion_tokens"] <= 8
