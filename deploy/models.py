"""Renting, running, charging: Quote -> Deployment -> Replica -> Attempt -> Machine, and the Windows bought of it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from arrakis.errors import Fault
from arrakis.ids import new_id
from deploy.reasons import sentence
from deploy.states import LIVE, MACHINE_LIVE, MachineState, State

FAULTS: list[tuple[Fault, object]] = [
    ("provider", _("provider")),
    ("platform", _("platform")),
    ("customer", _("customer")),
]


def rate(verbose_name: Any, **options: Any) -> models.DecimalField[Any, Any]:
    """USD per hour for a whole machine, NUMERIC(12,6)."""
    return models.DecimalField(verbose_name, max_digits=12, decimal_places=6, **options)


class Quote(models.Model):
    """An offer, a plan, a price, a cost ceiling, valid for minutes; what the customer accepts."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.PROTECT, related_name="quotes", verbose_name=_("workspace")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("user")
    )
    offer = models.ForeignKey(
        "catalog.Offer", on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("offer")
    )
    offer_facts = models.JSONField(_("offer"))
    """What was offered, kept: gpu key and name, gpu_count, provider, external_id, region, price_per_gpu_hour."""
    model = models.ForeignKey(
        "sizing.HubModel", on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("model")
    )
    repo_id = models.CharField(_("repository"), max_length=200)
    revision = models.CharField(_("commit"), max_length=64, blank=True)
    engine = models.CharField(_("engine"), max_length=20)
    plan = models.JSONField(_("plan"), default=dict)
    price_per_hour = rate(_("price per hour"))
    max_cost_per_hour = rate(_("cost ceiling per hour"))
    hold = models.DecimalField(_("hold"), max_digits=20, decimal_places=6)
    estimated_ready_seconds = models.PositiveIntegerField(_("estimated seconds to ready"))
    created_at = models.DateTimeField(_("created at"), db_default=Now())
    expires_at = models.DateTimeField(_("expires at"))
    used_at = models.DateTimeField(_("used at"), null=True, blank=True)

    class Meta:
        verbose_name = _("quote")
        verbose_name_plural = _("quotes")

    def __str__(self) -> str:
        return str(self.pk)


class Deployment(models.Model):
    class Desired(models.TextChoices):
        RUNNING = "running", _("running")
        STOPPED = "stopped", _("stopped")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.PROTECT, related_name="deployments", verbose_name=_("workspace")
    )
    name = models.CharField(_("name"), max_length=80)
    quote = models.OneToOneField(Quote, on_delete=models.PROTECT, related_name="deployment", verbose_name=_("quote"))
    repo_id = models.CharField(_("repository"), max_length=200)
    revision = models.CharField(_("commit"), max_length=64, blank=True)
    engine = models.CharField(_("engine"), max_length=20)
    engine_version = models.CharField(_("engine version"), max_length=40, blank=True)
    plan = models.JSONField(_("plan"), default=dict)
    args = models.JSONField(_("arguments"), default=list, blank=True)
    env = models.JSONField(_("environment"), default=dict, blank=True)
    served_name = models.CharField(_("served as"), max_length=200)
    price_per_hour = rate(_("price per hour"))
    price_until = models.DateTimeField(_("price holds until"))
    desired = models.CharField(_("wanted"), max_length=8, choices=Desired.choices, default=Desired.RUNNING)
    replicas = models.PositiveSmallIntegerField(_("replicas"), default=1)
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.REQUESTED)
    reason_code = models.CharField(_("reason"), max_length=60, blank=True)
    reason_params = models.JSONField(default=dict, blank=True)
    fault = models.CharField(_("fault"), max_length=10, choices=FAULTS, blank=True)
    limits = models.JSONField(_("limits"), default=dict, blank=True)
    hf_token = models.TextField(_("hub token, encrypted"), blank=True)
    free_until = models.DateTimeField(_("start-up is free until"), null=True, blank=True)
    """When charging begins although it is not running yet; null where the free allowance was not asked for."""
    let_in_at = models.DateTimeField(_("asked to be let in at"), null=True, blank=True)
    """The customer asked to be charged and let in before it runs: from when the machine can be reached."""
    requested_at = models.DateTimeField(_("requested at"), db_default=Now())
    first_served_at = models.DateTimeField(_("first served at"), null=True, blank=True)
    stop_requested_at = models.DateTimeField(_("stop requested at"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("asked for by")
    )

    class Meta:
        verbose_name = _("deployment")
        verbose_name_plural = _("deployments")
        ordering = ["-requested_at"]
        constraints = [models.CheckConstraint(condition=Q(replicas=1), name="deployment_one_replica")]
        indexes = [models.Index(fields=["workspace", "-requested_at"], name="deployment_of_workspace")]

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """One running copy; moved on step by step under a lease (deploy.claims)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, related_name="replica_set", verbose_name=_("deployment")
    )
    ordinal = models.PositiveSmallIntegerField(_("number"), default=1)
    generation = models.PositiveSmallIntegerField(_("generation"), default=1)
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.REQUESTED)
    state_since = models.DateTimeField(_("in this state since"), db_default=Now())
    due_at = models.DateTimeField(_("due at"), db_default=Now())
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(_("deadline"), null=True, blank=True)
    tries = models.PositiveSmallIntegerField(_("tries"), default=0)
    hinted_until = models.DateTimeField(null=True, blank=True)
    """A message for the worker is on its way; if nothing came of it by then, the sweep sends another."""
    restart_asked_at = models.DateTimeField(_("restart asked at"), null=True, blank=True)
    progress = models.BigIntegerField(_("bytes at the last look"), default=0)
    """A download that goes on moves its deadline; one that does not is given up."""

    class Meta:
        verbose_name = _("replica")
        verbose_name_plural = _("replicas")
        constraints = [models.UniqueConstraint(fields=["deployment", "ordinal", "generation"], name="replica_unique")]
        indexes = [models.Index(fields=["due_at"], name="replica_due", condition=Q(state__in=LIVE))]

    def __str__(self) -> str:
        return str(self.pk)


class Machine(models.Model):
    """What is rented and paid for. Known before asked for; never forgotten until its absence is proven."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.PROTECT, related_name="machines", verbose_name=_("workspace")
    )
    quote = models.ForeignKey(Quote, on_delete=models.PROTECT, related_name="machines", verbose_name=_("quote"))
    provider = models.ForeignKey(
        "catalog.Provider", on_delete=models.PROTECT, related_name="+", verbose_name=_("provider")
    )
    fleet_host = models.ForeignKey(
        "catalog.FleetHost",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("own host"),
    )
    slot = models.PositiveSmallIntegerField(_("slot"), null=True, blank=True)
    label = models.CharField(_("label"), max_length=80, unique=True)
    external_id = models.CharField(_("id at the provider"), max_length=120, null=True, blank=True)
    state = models.CharField(_("state"), max_length=10, choices=MachineState.choices, default=MachineState.INTENT)
    price_per_hour = rate(_("price per hour"))
    cost_per_hour = rate(_("cost per hour"), null=True, blank=True)
    ssh_host = models.CharField(_("SSH host"), max_length=255, blank=True)
    ssh_port = models.PositiveIntegerField(_("SSH port"), null=True, blank=True)
    ssh_user = models.CharField(_("SSH user"), max_length=64, default="root")
    host_key = models.TextField(_("host key"), blank=True)
    admin_key = models.TextField(_("workers' key, encrypted"), blank=True)
    tunnel_key = models.TextField(_("tunnel's key, encrypted"), blank=True)
    asked_at = models.DateTimeField(_("asked at"), db_default=Now())
    ready_at = models.DateTimeField(_("ready at"), null=True, blank=True)
    charged_from = models.DateTimeField(_("charged from"), null=True, blank=True)
    """When the first window begins: once running, after the free allowance, or when let in early."""
    charged_until = models.DateTimeField(_("charged until"), null=True, blank=True)
    """Where bought time ends; once settled, where used time ended. Written by deploy.metering, as the next three."""
    windows_bought = models.PositiveIntegerField(_("windows bought"), default=0)
    settled_at = models.DateTimeField(_("settled at"), null=True, blank=True)
    refunded_at = models.DateTimeField(_("refunded at"), null=True, blank=True)
    release_asked_at = models.DateTimeField(_("release asked at"), null=True, blank=True)
    absence_proven_at = models.DateTimeField(_("absence proven at"), null=True, blank=True)
    due_at = models.DateTimeField(_("due at"), db_default=Now())
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    hinted_until = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveIntegerField(_("tries to release"), default=0)
    missed = models.PositiveSmallIntegerField(_("missing from so many lists"), default=0)
    """Complete lists of the provider, one after the other, that did not have the label; two of them make it lost."""
    alerted_at = models.DateTimeField(_("staff told at"), null=True, blank=True)

    class Meta:
        verbose_name = _("machine")
        verbose_name_plural = _("machines")
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "external_id"],
                name="machine_external_id",
                condition=Q(external_id__isnull=False, state__in=MACHINE_LIVE),
            ),
            models.UniqueConstraint(
                fields=["fleet_host", "slot"],
                name="machine_slot",
                nulls_distinct=False,
                condition=Q(fleet_host__isnull=False, state__in=MACHINE_LIVE),
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="machine_due", condition=Q(state__in=MACHINE_LIVE)),
            models.Index(
                fields=["charged_until", "id"],
                name="machine_bought_time_ends",
                condition=Q(charged_from__isnull=False, settled_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.label


class Attempt(models.Model):
    """One try to get a replica its machine; at most one open."""

    class Outcome(models.TextChoices):
        OPEN = "open", _("open")
        OK = "ok", _("ok")
        REFUSED = "refused", _("refused")
        UNKNOWN = "unknown", _("unknown")
        FAILED = "failed", _("failed")

    replica = models.ForeignKey(Replica, on_delete=models.PROTECT, related_name="attempts", verbose_name=_("replica"))
    n = models.PositiveSmallIntegerField()
    offer_facts = models.JSONField(_("offer"), default=dict)
    machine = models.OneToOneField(
        Machine, on_delete=models.PROTECT, null=True, blank=True, related_name="attempt", verbose_name=_("machine")
    )
    outcome = models.CharField(_("outcome"), max_length=8, choices=Outcome.choices, default=Outcome.OPEN)
    reason_code = models.CharField(_("reason"), max_length=60, blank=True)
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        constraints = [
            models.UniqueConstraint(fields=["replica", "n"], name="attempt_unique"),
            models.UniqueConstraint(fields=["replica"], name="attempt_one_open", condition=Q(outcome="open")),
        ]

    def __str__(self) -> str:
        return str(self.n)


class MachineSshKey(models.Model):
    """A customer's key on a machine: asked for at request, installed once the machine is charged."""

    machine = models.ForeignKey(
        Machine, on_delete=models.PROTECT, null=True, related_name="customer_keys", verbose_name=_("machine")
    )
    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, related_name="customer_keys", verbose_name=_("deployment")
    )
    public_key = models.TextField(_("public key"))
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", verbose_name=_("user")
    )
    installed_at = models.DateTimeField(_("installed at"), null=True, blank=True)
    removed_at = models.DateTimeField(_("removed at"), null=True, blank=True)

    class Meta:
        verbose_name = _("SSH key on a machine")
        verbose_name_plural = _("SSH keys on machines")

    def __str__(self) -> str:
        return self.fingerprint


class Orphan(models.Model):
    """A label of ours at a provider that no live machine has; released after a grace period and two sightings."""

    provider = models.ForeignKey(
        "catalog.Provider", on_delete=models.PROTECT, related_name="+", verbose_name=_("provider")
    )
    place = models.CharField(_("place"), max_length=60)
    label = models.CharField(_("label"), max_length=80)
    external_id = models.CharField(_("id at the provider"), max_length=120, blank=True)
    sightings = models.PositiveIntegerField(_("sightings"), default=1)
    first_seen = models.DateTimeField(_("first seen"), db_default=Now())
    last_seen = models.DateTimeField(_("last seen"), db_default=Now())
    released_at = models.DateTimeField(_("released at"), null=True, blank=True)

    class Meta:
        verbose_name = _("orphan")
        verbose_name_plural = _("orphans")
        constraints = [models.UniqueConstraint(fields=["provider", "place", "label"], name="orphan_unique")]

    def __str__(self) -> str:
        return self.label


class ReplicaStatus(models.Model):
    """What the machine says of itself, newest only: one hot row, written by the tunnels, untrusted (DESIGN 5.6)."""

    replica = models.OneToOneField(
        Replica, on_delete=models.CASCADE, primary_key=True, related_name="status", verbose_name=_("replica")
    )
    stage = models.CharField(max_length=20, blank=True)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    engine_port = models.PositiveIntegerField(null=True, blank=True)
    engine_state = models.CharField(max_length=20, blank=True)
    restarts = models.PositiveIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    gpu = models.JSONField(default=dict)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("replica status")
        verbose_name_plural = _("replica statuses")

    def __str__(self) -> str:
        return self.stage


class Event(models.Model):
    """What happened to a deployment; append-only. `code` and `params` are kept, the sentence is made for the reader."""

    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, related_name="events", verbose_name=_("deployment")
    )
    replica = models.ForeignKey(
        Replica, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("replica")
    )
    machine = models.ForeignKey(
        Machine, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("machine")
    )
    at = models.DateTimeField(_("at"), db_default=Now())
    code = models.CharField(_("code"), max_length=60)
    params = models.JSONField(default=dict)
    fault = models.CharField(_("fault"), max_length=10, choices=FAULTS, blank=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("actor")
    )

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ["id"]

    def __str__(self) -> str:
        return self.code

    @property
    def sentence(self) -> str:
        """What happened, in the reader's language."""
        return sentence(self.code, self.params)


class Window(models.Model):
    """A piece of a machine's time that was bought: [starts_at, ends_at), used until `used_until` once settled."""

    machine = models.ForeignKey(Machine, on_delete=models.PROTECT, related_name="windows", verbose_name=_("machine"))
    n = models.PositiveIntegerField()
    starts_at = models.DateTimeField(_("from"))
    ends_at = models.DateTimeField(_("until"))
    used_until = models.DateTimeField(_("used until"), null=True, blank=True)
    price_per_hour = rate(_("price per hour"))
    bought_entry = models.OneToOneField(
        "ledger.Entry", on_delete=models.PROTECT, related_name="+", verbose_name=_("bought by")
    )
    settled_entry = models.ForeignKey(
        "ledger.Entry", on_delete=models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("settled by")
    )

    class Meta:
        verbose_name = _("window")
        verbose_name_plural = _("windows")
        constraints = [
            models.UniqueConstraint(fields=["machine", "n"], name="window_unique"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="window_forward"),
            ExclusionConstraint(
                name="window_disjoint",
                expressions=[
                    ("machine", RangeOperators.EQUAL),
                    (Func("starts_at", "ends_at", function="tstzrange"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.machine_id} {self.n}"
