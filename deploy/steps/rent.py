"""requested, renting, booting, checking: from an intent to a machine that is what was ordered."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from arrakis.clock import ClockTimestamp
from catalog.models import Gpu
from deploy import attempts, failpoints
from deploy.engines import ENGINES
from deploy.engines.base import GpuFacts, HostKind, ModelFacts
from deploy.machine import host
from deploy.machine.host import MachineFacts
from deploy.machine.ssh import connect
from deploy.models import Attempt, Machine
from deploy.providers import provider_of
from deploy.providers.base import OutcomeUnknown, Refused, Rented
from deploy.states import MachineState, State
from deploy.steps.base import Move, NextOffer, Outcome, Stay, Work

DISK_MARGIN_BYTES = 2 * 10**9
SIGHTINGS = 2
"""Times that a label must be looked for in vain before an unclear create is taken for one that made nothing."""


def requested(work: Work) -> Outcome:
    return Move(State.RENTING, {"offer": work.quote.offer_facts.get("provider_name", "")})


def renting(work: Work) -> Outcome:
    """Create once. Whether it may have been asked for is committed first, so that no crash makes a second machine."""
    machine = work.rented
    provider = provider_of(machine)
    if machine.state == MachineState.UNKNOWN:
        return _look_up(work)
    Machine.objects.filter(pk=machine.pk, state=MachineState.INTENT).update(state=MachineState.UNKNOWN, missed=0)
    public_key = attempts.public_key(work.target.private_key)
    failpoints.hit("renting", "before")
    try:
        rented = provider.create(machine, public_key)
    except Refused as error:
        return NextOffer(error.code, error.params, Attempt.Outcome.REFUSED)
    except OutcomeUnknown as error:
        return Stay(2, event="answer_unclear", params=error.params)
    failpoints.hit("renting", "after")
    return _rented(work, rented)


def _look_up(work: Work) -> Outcome:
    machine = work.rented
    rented = provider_of(machine).find(machine)
    if rented is not None:
        return _rented(work, rented)
    seen_missing = machine.missed + 1
    unknown = Machine.objects.filter(pk=machine.pk, state=MachineState.UNKNOWN)
    if seen_missing < SIGHTINGS:
        return Stay(1, write=lambda: _update(unknown, missed=seen_missing))
    return Stay(0, write=lambda: _update(unknown, state=MachineState.INTENT, missed=0))


def _rented(work: Work, rented: Rented) -> Outcome:
    machine, ceiling = work.rented, work.quote.max_cost_per_hour
    found = {
        "external_id": rented.external_id,
        "ssh_host": rented.ssh_host,
        "ssh_port": rented.ssh_port,
        "ssh_user": rented.ssh_user,
        "host_key": rented.host_key,
        "cost_per_hour": rented.cost_per_hour,
        "missed": 0,
    }
    rows = Machine.objects.filter(pk=machine.pk)
    if rented.cost_per_hour is not None and rented.cost_per_hour > ceiling:
        _update(rows, **found)
        return NextOffer("price_above_ceiling", {"cost": str(rented.cost_per_hour), "ceiling": str(ceiling)})
    return Move(State.BOOTING, write=lambda: _update(rows, state=MachineState.CREATED, **found))


def booting(work: Work) -> Outcome:
    """Wait until its SSH answers to our key, and pin the key it answers with."""
    failpoints.hit("booting", "before")
    with connect(work.target) as session:
        host_key = session.host_key
    failpoints.hit("booting", "after")
    rows = Machine.objects.filter(pk=work.rented.pk)
    attempt = Attempt.objects.filter(machine=work.rented)

    def write() -> None:
        _update(rows, state=MachineState.READY, ready_at=ClockTimestamp(), host_key=host_key)
        _update(attempt, outcome=Attempt.Outcome.OK)

    return Move(State.CHECKING, write=write)


def checking(work: Work) -> Outcome:
    """Compare what is there with what was ordered, before gigabytes are fetched."""
    failpoints.hit("checking", "before")
    facts = host.check(work.target)
    failpoints.hit("checking", "after")
    if problem := _problem(work, facts):
        return problem
    return Move(State.INSTALLING, _told(facts))


def _problem(work: Work, facts: MachineFacts) -> NextOffer | None:
    ordered, plan = work.quote.offer_facts, work.plan
    if facts.python is None:
        return NextOffer("machine_no_python")
    if facts.disk_free_bytes < plan.download_bytes + DISK_MARGIN_BYTES:
        need = plan.download_bytes + DISK_MARGIN_BYTES
        return NextOffer("machine_disk_too_small", {"needed_bytes": need, "there_bytes": facts.disk_free_bytes})
    if ordered["gpu_kind"] == Gpu.Kind.CPU:
        there = Decimal(facts.memory_bytes) / 10**9
        return None if plan.fits(there) else _too_little(plan.memory_gb, there)
    wanted = int(ordered["gpu_count"])
    if len(facts.gpus) < wanted:
        return NextOffer("machine_gpus_missing", {"ordered": wanted, "there": len(facts.gpus)})
    there = sum((Decimal(gpu.memory_mib) * 2**20 / 10**9 for gpu in facts.gpus), Decimal(0))
    if not plan.fits(there):
        return _too_little(plan.memory_gb, there)
    return _engine_problem(work, facts)


def _engine_problem(work: Work, facts: MachineFacts) -> NextOffer | None:
    """The driver and the GPU as they really are against what the engine needs."""
    gpu = facts.gpus[0]
    kind: HostKind = "gpu"
    capability = int(Decimal(gpu.compute_capability) * 10) if gpu.compute_capability else None
    driver = gpu.driver.partition(".")[0]
    there = GpuFacts(gpu.name, len(facts.gpus), gpu.memory_mib, capability, int(driver) if driver.isdigit() else None)
    has_gguf = bool(work.plan.gguf)
    refusal = ENGINES[work.deployment.engine].refusal(
        kind, there, ModelFacts(has_safetensors=not has_gguf, has_gguf=has_gguf)
    )
    return NextOffer(refusal.code, dict(refusal.params)) if refusal else None


def _too_little(needed_gb: str, there: Decimal) -> NextOffer:
    return NextOffer("machine_memory_too_small", {"needed_gb": needed_gb, "there_gb": f"{there:.1f}"})


def _told(facts: MachineFacts) -> dict[str, object]:
    names = sorted({gpu.name[:60] for gpu in facts.gpus})
    return {"os": facts.os[:60], "cpus": facts.cpu_count, "memory_bytes": facts.memory_bytes, "gpus": ", ".join(names)}


def _update(rows: QuerySet[Any], **values: Any) -> None:
    rows.update(**values)
