"""The launcher, run as llama-server is: by its command line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from arrakis.demo import llama_server
from arrakis.demo.hub import weights
from deploy.engines.llamacpp import LlamaCpp

LAUNCHER = Path(llama_server.__file__)
WAIT_SECONDS = 60
QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}
VALUES = {
    "-fa": "on",
    "--flash-attn": "auto",
    "-ctk": "q8_0",
    "--cache-type-k": "f16",
    "-ctv": "q8_0",
    "--cache-type-v": "f16",
    "-sm": "layer",
    "--split-mode": "row",
    "--tensor-split": "3,1",
    "--chat-template": "chatml",
    "--reasoning-format": "deepseek-legacy",
    "--pooling": "mean",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(LAUNCHER), *arguments], capture_output=True, text=True, timeout=WAIT_SECONDS
    )


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    port = free_port()
    command = [sys.executable, str(LAUNCHER), "-m", str(weights()), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "-c", "1024", "-np", "1", "-t", "1", "-ngl", "0", "--jinja", "--no-ui", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_SECONDS) as client:
            until_healthy(client, process)
            yield client, process
    finally:
        process.kill()
        process.wait()


def until_healthy(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"llama-server did not come up: {process.poll()}")


@pytest.mark.services
def test_it_answers_a_chat_and_ends_cleanly() -> None:
    with serving("--alias", "smol", "--metrics") as (client, process):
        answer = client.post("/v1/chat/completions", json=QUESTION).json()
        assert answer["model"] == "smol"
        assert answer["choices"][0]["finish_reason"] in {"length", "stop"}
        assert 0 < answer["usage"]["completion_tokens"] <= 8
        assert "llamacpp:tokens_predicted_total" in client.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0


@pytest.mark.services
def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# the shop's\nfrom-file\n")
    with serving("--api-key-file", str(keys), LLAMA_API_KEY="from-environment") as (client, _process):
        assert client.get("/v1/models").status_code == 401
        for key in ("from-file", "from-environment"):
            assert client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.services
def test_an_unknown_flag_is_refused_as_llama_server_does() -> None:
    ended = run("-m", str(weights()), "--bogus")
    assert (ended.returncode, ended.stderr) == (1, "error: invalid argument: --bogus\n")


@pytest.mark.services
def test_a_missing_or_broken_model_says_why(tmp_path: Path) -> None:
    missing = run("-m", str(tmp_path / "none.gguf"), "--port", str(free_port()))
    assert missing.returncode == 1 and "No such file or directory" in missing.stderr
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(b"not a model at all" * 100)
    broken = run("-m", str(garbage), "--port", str(free_port()))
    assert broken.returncode == 1 and "invalid magic characters" in broken.stderr


@pytest.mark.services
def test_a_taken_port_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run("-m", str(weights()), "-t", "1", "-c", "512", "--host", "127.0.0.1", "--port", port)
    assert ended.returncode == 1 and "couldn't bind" in ended.stderr


def test_it_says_its_version() -> None:
    ended = run("--version")
    assert ended.returncode == 0 and ended.stderr.startswith("version: 2026.")


def test_it_knows_every_argument_that_customers_may_set() -> None:
    for name, count in LlamaCpp.allowed_args.items():
        value = [VALUES.get(name, "1")] if count else []
        assert llama_server.parse(["-m", "model.gguf", name, *value]).model.path == "model.gguf"


def test_arguments_reach_llama_cpp() -> None:
    line = "-m m.gguf -a one --host 127.0.0.1 --port 5000 --ctx-size=4096 -np 2 -t 3 -ngl all --temp 0.25 --top-k 7"
    params = llama_server.parse([*line.split(), "--no-jinja", "--embeddings", "-fa", "off"])
    assert (params.model.path, params.model_alias, params.port, params.n_ctx) == ("m.gguf", {"one"}, 5000, 4096)
    assert (params.n_parallel, params.cpuparams.n_threads, params.n_gpu_layers) == (2, 3, 999)
    assert (params.sampling.temp, params.sampling.top_k) == (0.25, 7)
    assert (params.use_jinja, params.embedding, int(params.flash_attn_type)) == (False, True, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "a model is needed"),
        ("-m", 'expected value for argument: "-m"'),
        ("-m x --port many", 'error while handling argument "--port"'),
        ("-m x -fa perhaps", 'error while handling argument "-fa": invalid value: perhaps'),
        ("-m x --jinja=yes", "invalid argument: --jinja=yes"),
        ("-m x stray", "invalid argument: stray"),
        ("-m x --api-key-file /nonexistent", 'error while handling argument "--api-key-file"'),
    ],
)
def test_a_bad_line_is_refused(line: str, message: str) -> None:
    with pytest.raises(llama_server.BadFlag, match=message.replace("(", r"\(")):
        llama_server.parse(line.split())
