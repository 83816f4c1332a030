"""What a customer or staff may ask for. Pages, API, admin and tasks call these; each is one short transaction.

They write down what is wanted and wake the replica; deploy.reconcile does it, step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from arrakis import clock, vault
from arrakis.accounts import sshkeys
from arrakis.accounts.models import SshKey, User, Workspace
from arrakis.clock import ClockTimestamp
from arrakis.errors import BadRequest, Conflict, NotFound, Unavailable
from deploy import allowance, attempts, events, metering, wake
from deploy.machine import host
from deploy.machine.errors import MachineError
from deploy.models import Deployment, MachineSshKey, Quote, Replica
from deploy.providers.base import Refused
from deploy.quotes import engine_of, quote, repriced
from deploy.states import ENDED, SERVING, STARTING, State
from deploy.targets import target

__all__ = ["deployments_of", "get_deployment", "get_quote", "let_in", "logs", "quote", "request", "restart", "stop"]

LONGEST_TOKEN = 500
MOST_SSH_KEYS = 20
MOST_ARGS = 60


@transaction.atomic
def request(
    *,
    workspace: Workspace,
    user: User,
    quote_id: UUID | str,
    name: str = "",
    ssh_keys: Sequence[str] | None = None,
    hf_token: str = "",
    args: Sequence[str] = (),
    let_in_early: bool = False,
) -> Deployment:
    """Accept a quote: holds the price of HOLD_MINUTES, reserves the machine, and begins.

    The same quote again gives the deployment it became. All or nothing.

    Args:
        ssh_keys: public keys as people paste them; None: those that the user keeps.
        hf_token: a token for gated models; encrypted, used for this download alone.
        args: further engine arguments, of those the engine allows.
        let_in_early: charged from when the machine can be reached, with SSH access from then on; no free start-up.

    Raises:
        NotFound: quote_unknown.
        BadRequest: name_too_long, ssh_key_*, ssh_keys_too_many, engine_argument_*, token_invalid.
        Conflict: quote_expired; price_changed (params: was, now); sold_out; workspace_frozen, limit_machines,
            limit_usd_per_hour, free_starts_at_once, free_start_used_up.
        InsufficientBalance: insufficient_balance (params: needed, available).
    """
    held = _lock_quote(workspace, quote_id)
    if before := Deployment.objects.filter(quote=held).first():
        return before
    now = clock.now()
    if held.expires_at <= now:
        raise Conflict("quote_expired")
    keys = _public_keys(user, ssh_keys)
    checked = engine_of(held.engine).check_args(_arguments(args))
    locked = Workspace.objects.select_for_update().get(pk=workspace.pk)
    allowance.check_limits(locked, held.price_per_hour)
    free_until = None if let_in_early else allowance.free_until(locked, now)
    priced = repriced(held)
    deployment = Deployment.objects.create(
        workspace=workspace,
        name=_name(name, held),
        quote=held,
        repo_id=held.repo_id,
        revision=held.revision,
        engine=held.engine,
        plan=held.plan,
        args=list(checked),
        served_name=held.repo_id,
        price_per_hour=held.price_per_hour,
        price_until=now + timedelta(days=settings.PRICE_TERM_DAYS),
        hf_token=vault.encrypt(_token(hf_token)) if hf_token else "",
        free_until=free_until,
        let_in_at=now if let_in_early else None,
        created_by=user,
    )
    replica = Replica.objects.create(deployment=deployment)
    try:
        machine = attempts.begin(replica, held, priced)
    except Refused as error:
        raise Conflict(error.code, next_gpu="", next_count=0, next_price="") from error
    MachineSshKey.objects.bulk_create(
        MachineSshKey(
            deployment=deployment, machine=machine, public_key=key.line, fingerprint=key.fingerprint, user=user
        )
        for key in keys
    )
    metering.hold_for_start(deployment)
    Quote.objects.filter(pk=held.pk).update(used_at=ClockTimestamp())
    events.write(deployment, "requested", replica=replica, actor=user, hold=str(held.hold))
    wake.replica(replica.pk)
    return deployment


@transaction.atomic
def stop(*, deployment: Deployment, actor: User | None, reason_code: str = "stopped_by_customer") -> Deployment:
    """Stop, from any state; charging ends now. Stopping or ended already: no change.

    Args:
        actor: who asked; None for the system (limits).
        reason_code: stopped_by_customer, stopped_by_staff, balance_empty, limit_usd, limit_stop_at...
    """
    row = _lock(deployment)
    if row.state in (State.STOPPING, *ENDED):
        return row
    row.desired = Deployment.Desired.STOPPED
    row.stop_requested_at = clock.now()
    row.state = State.STOPPING
    row.reason_code = reason_code
    row.fault = "customer"
    row.save(update_fields=["desired", "stop_requested_at", "state", "reason_code", "fault"])
    replica = _replica(row)
    # A step under way keeps its lease and finds, when it applies its result, that the state moved on.
    Replica.objects.filter(pk=replica.pk).update(
        state=State.STOPPING, state_since=ClockTimestamp(), due_at=ClockTimestamp(), deadline_at=None, tries=0
    )
    metering.close(row)
    events.write(row, reason_code, replica=replica, fault="customer", actor=actor)
    wake.replica(replica.pk)
    return row


@transaction.atomic
def restart(*, deployment: Deployment, actor: User) -> Deployment:
    """Start the engine again on the same machine; the weights stay, the charge goes on.

    Raises Conflict: not_running (params: state).
    """
    row = _lock(deployment)
    if row.state not in SERVING:
        raise Conflict("not_running", state=row.state)
    replica = _replica(row)
    Replica.objects.filter(pk=replica.pk).update(restart_asked_at=ClockTimestamp(), due_at=ClockTimestamp())
    events.write(row, "restart_asked", replica=replica, actor=actor)
    wake.replica(replica.pk)
    return row


@transaction.atomic
def let_in(*, deployment: Deployment, actor: User) -> Deployment:
    """Let the customer's SSH keys in before it runs: charged from when the machine can be reached.

    Asked for already, or charged already: no change.

    Raises Conflict: not_starting (params: state).
    """
    row = _lock(deployment)
    if row.state not in (*STARTING, *SERVING):
        raise Conflict("not_starting", state=row.state)
    if row.let_in_at is None and row.state in STARTING:
        row.let_in_at = clock.now()
        row.save(update_fields=["let_in_at"])
        replica = _replica(row)
        Replica.objects.filter(pk=replica.pk).update(due_at=ClockTimestamp())
        events.write(row, "let_in_asked", replica=replica, actor=actor)
        wake.replica(replica.pk)
    return row


def logs(*, deployment: Deployment, lines: int = 200) -> str:
    """The engine's last lines, cleaned; empty while there is no engine. What the machine says: escape it.

    Raises:
        Conflict: no_machine; the machine is not there any more, and its log with it.
        Unavailable: machine_unreachable.
    """
    attempt = attempts.current(_replica(deployment))
    machine = attempt.machine if attempt else None
    if deployment.state in ENDED or machine is None or machine.ready_at is None:
        raise Conflict("no_machine")
    try:
        return host.read_log(target(machine), machine.label, lines=max(1, min(lines, 1000)))
    except MachineError as error:
        if error.code == "no_base":
            return ""
        raise Unavailable("machine_unreachable", detail=error.code) from error


def deployments_of(workspace: Workspace) -> QuerySet[Deployment]:
    """All of the workspace, newest first."""
    return Deployment.objects.filter(workspace=workspace).select_related("quote")


def get_deployment(workspace: Workspace, pk: UUID | str) -> Deployment:
    """Raises NotFound: deployment_unknown, for another workspace's too."""
    found = deployments_of(workspace).filter(pk=pk).first() if _is_uuid(pk) else None
    if found is None:
        raise NotFound("deployment_unknown")
    return found


def get_quote(workspace: Workspace, pk: UUID | str) -> Quote:
    """Raises NotFound: quote_unknown, for another workspace's too."""
    quotes = Quote.objects.filter(workspace=workspace).select_related("offer", "model")
    found = quotes.filter(pk=pk).first() if _is_uuid(pk) else None
    if found is None:
        raise NotFound("quote_unknown")
    return found


def _lock_quote(workspace: Workspace, pk: UUID | str) -> Quote:
    mine = Quote.objects.select_for_update().filter(workspace=workspace)
    found = mine.filter(pk=pk).first() if _is_uuid(pk) else None
    if found is None:
        raise NotFound("quote_unknown")
    return found


def _lock(deployment: Deployment) -> Deployment:
    return Deployment.objects.select_for_update().get(pk=deployment.pk)


def _replica(deployment: Deployment) -> Replica:
    return Replica.objects.filter(deployment=deployment).order_by("-generation", "ordinal")[:1].get()


def _is_uuid(value: UUID | str) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True


def _name(name: str, held: Quote) -> str:
    name = " ".join(name.split())
    if len(name) > 80 or not name.isprintable():
        raise BadRequest("name_too_long", most=80)
    return name or held.repo_id.rpartition("/")[2][:80]


def _token(token: str) -> str:
    token = token.strip()
    if not token or len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest("token_invalid")
    return token


def _arguments(args: Sequence[str]) -> list[str]:
    if len(args) > MOST_ARGS:
        raise BadRequest("engine_arguments_too_many", most=MOST_ARGS)
    return [str(argument) for argument in args]


def _public_keys(user: User, pasted: Sequence[str] | None) -> list[sshkeys.PublicKey]:
    if pasted is None:
        pasted = list(SshKey.objects.filter(user=user).values_list("public_key", flat=True)[:MOST_SSH_KEYS])
    if len(pasted) > MOST_SSH_KEYS:
        raise BadRequest("ssh_keys_too_many", most=MOST_SSH_KEYS)
    keys = [sshkeys.parse(text) for text in pasted]
    return list({key.fingerprint: key for key in keys}.values())


def live_of(workspace: Workspace) -> QuerySet[Deployment]:
    """Those that are not over."""
    return deployments_of(workspace).filter(~Q(state__in=ENDED))
