"""A deployment as people see it: one View for the console, the API and the admin alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.utils.functional import Promise

from arrakis import clock
from deploy import metering, plans, reasons
from deploy.models import Deployment, Event, Machine, MachineSshKey, ReplicaStatus
from deploy.plans import Plan
from deploy.states import ENDED, MACHINE_LIVE, SERVING, STARTING, State

StageStatus = Literal["done", "now", "next", "failed"]

PATH = (*STARTING, State.RUNNING)
"""The way to running, as the timeline shows it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the timeline. Seconds; bytes for the download alone, None where they are not known."""

    key: str
    name: str | Promise
    status: StageStatus
    elapsed_seconds: int | None
    expected_seconds: int | None
    bytes_done: int | None
    bytes_total: int | None


@dataclass(frozen=True, slots=True)
class Ssh:
    """How the customer gets into the machine; there once their keys are installed."""

    host: str
    port: int
    user: str
    host_key: str

    @property
    def command(self) -> str:
        return f"ssh -p {self.port} {self.user}@{self.host}"


@dataclass(frozen=True, slots=True)
class View:
    """Money in US dollars, per hour for the whole machine. Texts are lazy, in the reader's language."""

    id: UUID
    name: str
    state: str
    state_name: str | Promise
    desired: str
    reason: str
    reason_code: str
    suggestion: str
    fault: str
    endpoint: str
    model: str
    engine: str
    gpu: str
    count: int
    is_demo: bool
    ssh: Ssh | None
    price_per_hour: Decimal
    price_until: datetime
    hold: Decimal
    cost: Decimal
    charged_from: datetime | None
    free_until: datetime | None
    requested_at: datetime
    first_served_at: datetime | None
    ended_at: datetime | None
    estimated_ready_seconds: int
    timeline: tuple[Stage, ...]
    events: tuple[Event, ...]
    can_stop: bool
    can_restart: bool
    can_let_in: bool

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


def describe(deployment: Deployment) -> View:
    """Everything that is shown of a deployment, read now."""
    facts, quote = deployment.quote.offer_facts, deployment.quote
    events = tuple(deployment.events.order_by("id"))
    machine = _machine(deployment)
    is_let_in = machine is not None and machine.charged_from is not None
    return View(
        id=deployment.pk,
        name=deployment.name,
        state=deployment.state,
        state_name=State(deployment.state).label,
        desired=deployment.desired,
        reason=reasons.sentence(deployment.reason_code, deployment.reason_params) if deployment.reason_code else "",
        reason_code=deployment.reason_code,
        suggestion=reasons.suggestion(deployment.reason_code, deployment.reason_params),
        fault=deployment.fault,
        endpoint=f"{settings.GATEWAY_URL}/v1",
        model=deployment.served_name,
        engine=deployment.engine,
        gpu=str(facts.get("gpu_name", "")),
        count=int(facts.get("gpu_count", 1)),
        is_demo=bool(facts.get("is_demo")),
        ssh=_ssh(deployment, machine),
        price_per_hour=deployment.price_per_hour,
        price_until=deployment.price_until,
        hold=quote.hold,
        cost=metering.cost_so_far(deployment),
        charged_from=machine.charged_from if machine else None,
        free_until=deployment.free_until,
        requested_at=deployment.requested_at,
        first_served_at=deployment.first_served_at,
        ended_at=deployment.ended_at,
        estimated_ready_seconds=quote.estimated_ready_seconds,
        timeline=tuple(_timeline(deployment, events, clock.now())),
        events=events,
        can_stop=deployment.state not in (State.STOPPING, *ENDED),
        can_restart=deployment.state in SERVING,
        can_let_in=deployment.state in STARTING and deployment.let_in_at is None and not is_let_in,
    )


def _machine(deployment: Deployment) -> Machine | None:
    return Machine.objects.filter(quote_id=deployment.quote_id).order_by("-asked_at", "-pk").first()


def _ssh(deployment: Deployment, machine: Machine | None) -> Ssh | None:
    if machine is None or machine.state not in MACHINE_LIVE or deployment.state in (State.STOPPING, *ENDED):
        return None
    keys = MachineSshKey.objects.filter(machine=machine, installed_at__isnull=False, removed_at__isnull=True)
    if not machine.ssh_host or not keys.exists():
        return None
    return Ssh(machine.ssh_host, machine.ssh_port or 22, machine.ssh_user, machine.host_key)


def _timeline(deployment: Deployment, events: tuple[Event, ...], now: datetime) -> list[Stage]:
    facts = deployment.quote.offer_facts
    expected = plans.stage_seconds(
        Plan.of(deployment.plan),
        engine=deployment.engine,
        adaptor=str(facts.get("adaptor", "")),
        mbit=facts.get("net_down"),
    )
    began, at = _began(events), _reached(deployment, events)
    end = deployment.ended_at or deployment.stop_requested_at or now
    over = deployment.state in (State.STOPPING, *ENDED)
    status = ReplicaStatus.objects.filter(replica__deployment=deployment).order_by("-replica__generation").first()
    return [_stage(state, at=at, began=began, end=end, over=over, expected=expected, status=status) for state in PATH]


def _stage(
    state: State,
    *,
    at: State,
    began: dict[State, datetime],
    end: datetime,
    over: bool,
    expected: dict[str, int],
    status: ReplicaStatus | None,
) -> Stage:
    here, reached = PATH.index(state), PATH.index(at)
    shown: StageStatus = "done" if here < reached or at == state == State.RUNNING else "next"
    if here == reached and state != State.RUNNING:
        shown = "failed" if over else "now"
    start = began.get(state)
    following = [began[later] for later in PATH[here + 1 :] if later in began and here < reached]
    until = min(following, default=end)
    is_download = state == State.DOWNLOADING and shown != "next" and status is not None
    return Stage(
        key=state.value,
        name=state.label,
        status=shown,
        elapsed_seconds=max(int((until - start).total_seconds()), 0) if start and shown != "next" else None,
        expected_seconds=expected.get(state.value),
        bytes_done=status.bytes_done if is_download and status else None,
        bytes_total=status.bytes_total if is_download and status else None,
    )


def _began(events: tuple[Event, ...]) -> dict[State, datetime]:
    """When each stage began, the last time it did."""
    return {State(event.code): event.at for event in events if event.code in PATH}


def _reached(deployment: Deployment, events: tuple[Event, ...]) -> State:
    """The furthest the deployment is now; of one that is over, where it was when it ended."""
    if deployment.first_served_at is not None:
        return State.RUNNING
    if deployment.state in PATH:
        return State(deployment.state)
    seen = [State(event.code) for event in events if event.code in PATH]
    return seen[-1] if seen else State.REQUESTED
