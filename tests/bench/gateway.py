"""The gateway against its upstream asked directly: what a request costs, and what it adds.

Real key, real routes in a real database, usage counted and written; the upstream is at a Unix socket as behind a
tunnel. Judge the ratios, not the figures: they are of this machine, and other programs run on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from django.conf import settings
from django.test.utils import setup_databases, teardown_databases

from tests.bench import load
from tests.bench.load import SCENARIOS, Figures, Generator

REPO = "bench/stub"
GATEWAY_CORE, CLIENT_CORE = 0, 1
# What must hold and what is good, from the comparison with other gateways on two cores of this kind.
BARS = {
    "requests_s": (4_000, 5_700),
    "cpu_s_per_1000_requests": (0.25, 0.17),
    "r500_added_p50_ms": (0.8, 0.45),
    "r500_added_p99_ms": (3.0, 1.0),
    "s100_added_ttft_p50_ms": (1.0, 0.6),
    "s100_added_ttft_p99_ms": (3.0, 1.5),
    "s1000_added_ttft_p50_ms": (1.5, 0.7),
    "s1000_added_ttft_p99_ms": (6.0, 3.0),
    "s1000_cpu_s_per_10000_chunks": (0.9, 0.65),
    "resident_idle_mib": (120, 70),
    "resident_1000_streams_mib": (170, 100),
}
MORE_IS_BETTER = {"requests_s"}


def run(runs: int, names: list[str]) -> None:
    """Print each figure beside its bar, medians over the runs."""
    with tempfile.TemporaryDirectory(prefix="ark-bench-") as folder:
        settings.RUN_DIR = Path(folder)
        load.build(settings.RUN_DIR)
        made = setup_databases(verbosity=0, interactive=False, aliases={"default": None}, serialized_aliases=set())
        try:
            results = _measure(runs, names)
        finally:
            teardown_databases(made, verbosity=0)
    _print(results)


def _measure(runs: int, names: list[str]) -> list[dict[str, float]]:
    key, socket = _deployment()
    with _upstream(key, socket) as (stub, stub_port), _gateway() as (gateway, port):
        generator = Generator(settings.RUN_DIR, CLIENT_CORE, REPO, key)
        results = []
        for number in range(runs):
            direct = {name: generator.run(SCENARIOS[name], stub_port, stub) for name in names}
            through = {name: generator.run(SCENARIOS[name], port, gateway) for name in names}
            results.append(_summary(through, direct))
            others = max(figures["other_cores"] for figures in through.values())
            print(f"run {number + 1}/{runs}; stub and other programs used up to {others:.2f} cores", file=sys.stderr)
        return results


def _deployment() -> tuple[str, Path]:
    """A running deployment, a key to it, and its machine's socket."""
    from deploy.gateway import keys
    from deploy.models import Deployment
    from deploy.tunnels.paths import make_socket_folder, socket_path
    from tests.deploy.shop import a_deployment, a_machine, a_workspace

    deployment = a_deployment(a_workspace())
    Deployment.objects.filter(pk=deployment.pk).update(repo_id=REPO, served_name=REPO)
    make_socket_folder()
    key, plaintext = keys.issue(workspace=deployment.workspace, name="bench", deployment=deployment)
    key.limits = {"at_once": 4_096}
    key.save(update_fields=["limits"])
    return plaintext, socket_path(a_machine(deployment).pk)


@contextmanager
def _upstream(key: str, socket: Path) -> Iterator[tuple[int, int]]:
    port = _free_port()
    command = [*load.pinned(CLIENT_CORE), settings.RUN_DIR / "stub", port, key, socket]
    with subprocess.Popen([str(word) for word in command]) as process:
        try:
            load.wait_for(port)
            yield process.pid, port
        finally:
            process.kill()


@contextmanager
def _gateway() -> Iterator[tuple[int, int]]:
    port = _free_port()
    command = [*load.pinned(GATEWAY_CORE), sys.executable, "-m", "deploy.gateway", "--port", str(port)]
    with subprocess.Popen(command, env=_environment(), cwd=settings.BASE_DIR) as process:
        try:
            load.wait_for(port)
            yield process.pid, port
        finally:
            process.terminate()


def _environment() -> dict[str, str]:
    from tests.deploy.gateway.test_processes import environment

    return {**environment(), "LOG_LEVEL": "WARNING", "PATH": os.environ.get("PATH", "")}


def _free_port() -> int:
    from tests.deploy.gateway.test_processes import free_port

    return free_port()


def _summary(through: dict[str, Figures], direct: dict[str, Figures]) -> dict[str, float]:
    found: dict[str, float] = {"errors": sum(figures["errors"] for figures in through.values())}
    if "sat" in through:
        sat = through["sat"]
        found["requests_s"] = sat["rps"]
        found["requests_s_of_direct"] = sat["rps"] / direct["sat"]["rps"]
        found["cpu_s_per_1000_requests"] = 1_000 * sat["cpu_s"] / max(1, sat["ok_all"])
        found["resident_after_requests_mib"] = sat["resident_mib"]
    for name in ("r100", "r500"):
        if name in through:
            found["resident_idle_mib"] = min(found.get("resident_idle_mib", 1e9), through[name]["resident_mib"])
            _add(found, name, "latency", "", through, direct)
    for name in ("s100", "s1000"):
        if name in through:
            _add(found, name, "ttft", "ttft_", through, direct)
            _add(found, name, "transit", "chunk_", through, direct)
            chunks = max(1, through[name]["chunks_all"])
            found[f"{name}_cpu_s_per_10000_chunks"] = 10_000 * through[name]["cpu_s"] / chunks
    if "s1000" in through:
        found["resident_1000_streams_mib"] = through["s1000"]["resident_mib"]
    if "flat" in through:
        found["flat_chunks_s_of_direct"] = through["flat"]["chunks_s"] / direct["flat"]["chunks_s"]
    return found


def _add(
    found: dict[str, float],
    name: str,
    what: str,
    label: str,
    through: dict[str, Figures],
    direct: dict[str, Figures],
) -> None:
    for percentile in ("p50", "p99"):
        added = through[name][what][percentile] - direct[name][what][percentile]
        found[f"{name}_added_{label}{percentile}_ms"] = added / 1_000


def _print(results: list[dict[str, float]]) -> None:
    for name in results[0]:
        value = median(row[name] for row in results)
        print(f"{name:32} {value:12,.3f}   {_verdict(name, value)}")


def _verdict(name: str, value: float) -> str:
    if name not in BARS:
        return ""
    must, good = BARS[name]
    sign = -1 if name in MORE_IS_BETTER else 1
    word = "good" if sign * value <= sign * good else "passes" if sign * value <= sign * must else "TOO MUCH"
    return f"{word if word != 'TOO MUCH' or sign > 0 else 'TOO LITTLE'} (must {must:g}, good {good:g})"
