"""installing, downloading, loading: from a bare machine to an engine that has answered."""

from __future__ import annotations

from arrakis import http, vault
from deploy import attempts, failpoints, metering, watch
from deploy.engines import ENGINES
from deploy.engines.base import MODEL_DIR, LaunchPlan
from deploy.machine import host
from deploy.models import Deployment, Machine
from deploy.states import State
from deploy.steps import access
from deploy.steps.base import Fail, Move, Outcome, Stay, Work
from deploy.tunnels.paths import socket_path
from deploy.weights import HubRefused, fetch_plan

FETCH_TRIES = 3
STARTED = frozenset({"starting", "loading", "ready", "unhealthy", "crashed"})
"""What an engine that was started says of itself; `crashed` waits for its restart by the supervisor."""
OURS = frozenset({"checksum_mismatch", "not_found"})
"""Downloads that fail so are refused files or facts out of date: the platform's, not the machine's."""


def installing(work: Work) -> Outcome:
    """Put the supervisor and the engine's command there, and let the tunnel's key in."""
    machine = work.rented
    tunnel_key = vault.decrypt(machine.tunnel_key) if machine.tunnel_key else attempts.new_private_key()
    spec = ENGINES[work.deployment.engine].spec(launch_plan(work))
    failpoints.hit("installing", "before")
    port = host.install(work.target, machine.label, spec, attempts.public_key(tunnel_key))
    failpoints.hit("installing", "after")

    def write() -> None:
        Machine.objects.filter(pk=machine.pk).update(tunnel_key=vault.encrypt(tunnel_key))
        watch.installed(work.replica, port=port, bytes_total=work.plan.download_bytes)

    return Move(State.DOWNLOADING, write=write)


def launch_plan(work: Work) -> LaunchPlan:
    plan, ordered = work.plan, work.quote.offer_facts
    is_cpu = ordered["gpu_kind"] == "cpu"
    gpus = 0 if is_cpu else int(ordered["gpu_count"])
    return LaunchPlan(
        model=f"{MODEL_DIR}/{plan.gguf}" if plan.gguf else MODEL_DIR,
        served_name=work.deployment.served_name,
        context=plan.context,
        parallel=plan.parallel,
        gpu_count=gpus,
        tensor_parallel=max(gpus, 1),
        host_kind="cpu" if is_cpu else "gpu",
        args=tuple(work.deployment.args),
    )


def downloading(work: Work) -> Outcome:
    """Begin the download, then read its progress from the hot row."""
    status = watch.read(work)
    if status.stage == "downloaded":
        return Move(State.LOADING, {"bytes": status.bytes_done})
    if status.stage == "downloading":
        return Stay(3, progress=status.bytes_done)
    if status.stage == "failed" and work.replica.tries >= FETCH_TRIES:
        code = status.error_code or "fetch_crashed"
        return Fail(code, work.blame("platform" if code in OURS else "provider"))
    failed = status.stage == "failed"
    try:
        plan = fetch_plan(
            endpoint=_endpoint(work),
            repo_id=work.deployment.repo_id,
            revision=work.deployment.revision,
            plan=work.plan,
            token=_token(work),
        )
    except HubRefused as error:
        return Fail(error.code, error.fault, error.params)
    failpoints.hit("downloading", "before")
    host.start_fetch(work.target, work.rented.label, plan, _token(work) or None)
    failpoints.hit("downloading", "after")
    total = sum(file.size for file in plan.files)
    return Stay(2, write=lambda: watch.fetching(work.replica, bytes_total=total), tried=failed)


def _endpoint(work: Work) -> str:
    model = work.quote.model
    if model is None:
        raise HubRefused("hub_not_found")
    return model.endpoint


def _token(work: Work) -> str:
    return vault.decrypt(work.deployment.hf_token) if work.deployment.hf_token else ""


def loading(work: Work) -> Outcome:
    """Start the engine, wait until it says that it is ready, then see it answer through the tunnel."""
    status = watch.read(work)
    if status.engine_state == "failed":
        return Fail(status.error_code or "engine_crash_limit", work.blame("platform"), {"restarts": status.restarts})
    if status.engine_state not in STARTED:
        failpoints.hit("loading", "before")
        host.start_engine(work.target, work.rented.label)
        failpoints.hit("loading", "after")
        return Stay(1, write=lambda: watch.forget(work.replica))
    if status.engine_state != "ready":
        return Stay(3)
    failpoints.hit("running", "before")
    answered = proven(work)
    failpoints.hit("running", "after")
    if not answered:
        return Stay(1, tried=True)
    if work.rented.charged_from is None and access.keys_wait(work):
        return access.charge(work)  # who reads `running` finds the door open: the keys go in first
    return Move(State.RUNNING, write=lambda: _serve(work))


def proven(work: Work) -> bool:
    """Whether `/v1/models` names the model and one token comes out, through the tunnel as any client's request."""
    way = socket_path(work.rented.pk)
    served = work.deployment.served_name
    try:
        listed = http.get_over_socket(way, "/v1/models")
        if listed.status != 200 or served not in _names(listed.json()):
            return False
        asked = {"model": served, "prompt": "Hi", "max_tokens": 1}
        return http.post_over_socket(way, "/v1/completions", json=asked, timeout=60).status == 200
    except http.NoAnswer:
        return False


def _names(answer: object) -> set[str]:
    rows = answer.get("data") if isinstance(answer, dict) else None
    return {str(row.get("id")) for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()


def _serve(work: Work) -> None:
    Deployment.objects.filter(pk=work.deployment.pk, first_served_at__isnull=True).update(first_served_at=work.now)
    metering.begin(work.rented)
