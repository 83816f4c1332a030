"""The C programs: an upstream that stamps its chunks, and a generator that reads the stamps (c/stub.c, c/loadgen.c)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.processes import cpu_seconds, machine_seconds, resident_mib

HERE = Path(__file__).resolve().parent
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Hello, who are you?"},
]
PATH = "/v1/chat/completions"
Figures = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """`mode` sat, rate or stream; `more` follows it on the generator's command line; `body` adds to the request."""

    mode: str
    connections: int
    seconds: float
    warmup: float
    more: tuple[int, ...] = ()
    body: tuple[tuple[str, Any], ...] = ()


SCENARIOS = {
    "r100": Scenario("rate", 64, 3, 0.7, (100,)),
    "r500": Scenario("rate", 128, 2.5, 0.5, (500,)),
    "sat": Scenario("sat", 32, 2.5, 0.7),
    "s100": Scenario("stream", 100, 2.5, 1.2, (500,), (("stream", True), ("max_tokens", 50), ("seed", 10))),
    "s1000": Scenario("stream", 1000, 4, 3.4, (3000,), (("stream", True), ("max_tokens", 30), ("seed", 100))),
    "flat": Scenario("stream", 32, 2, 0.7, (100,), (("stream", True), ("max_tokens", 200), ("seed", 0))),
}


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(into: Path) -> None:
    """Compile both programs. CalledProcessError shows the compiler's words."""
    for name in ("stub", "loadgen"):
        subprocess.run([str(compiler()), "-O2", "-o", into / name, HERE / "c" / f"{name}.c"], check=True)


def pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


def wait_for(port: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")


@dataclass
class Generator:
    """Runs scenarios against a port; `pid` is the process whose CPU and memory are read."""

    programs: Path
    core: int
    model: str
    key: str

    def run(self, scenario: Scenario, port: int, pid: int) -> Figures:
        headers = f"Authorization: Bearer {self.key}\r\n"
        body = json.dumps({"model": self.model, "messages": MESSAGES, **dict(scenario.body)})
        command = [*pinned(self.core), self.programs / "loadgen", scenario.mode, "127.0.0.1", port, PATH, headers, body]
        command += [scenario.connections, scenario.seconds, scenario.warmup, *scenario.more]
        began, cpu, busy = time.monotonic(), cpu_seconds(pid), machine_seconds()
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        resident = 0.0
        while process.poll() is None:
            resident = max(resident, resident_mib(pid))
            time.sleep(0.2)
        wall = time.monotonic() - began
        figures: Figures = json.loads(process.communicate()[0])
        used = cpu_seconds(pid) - cpu
        others = machine_seconds() - busy - used - figures["client_cpu_s"]
        return {**figures, "cpu_s": used, "resident_mib": resident, "other_cores": max(0.0, others / wall)}
