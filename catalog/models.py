"""What can be rented, from whom, for how much (DESIGN section 3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _


def usd(verbose_name: Any = None, **options: Any) -> models.DecimalField[Any, Any]:
    """A price or cost in USD per GPU-hour, NUMERIC(12,6)."""
    return models.DecimalField(verbose_name, max_digits=12, decimal_places=6, **options)


class Gpu(models.Model):
    """The GPU family people compare (H100), with vendor facts."""

    class Kind(models.TextChoices):
        GPU = "gpu", _("GPU")
        CPU = "cpu", _("CPU")

    key = models.SlugField(_("key"), max_length=40, unique=True)
    name = models.CharField(_("name"), max_length=60)
    position = models.PositiveIntegerField(_("position"), default=1000)
    vendor = models.CharField(_("vendor"), max_length=20)
    kind = models.CharField(_("kind"), max_length=3, choices=Kind.choices, default=Kind.GPU)
    memory_gb = models.DecimalField(_("memory, GB"), max_digits=8, decimal_places=2)
    reported_mib = models.PositiveIntegerField(_("memory a machine reports, MiB"), null=True, blank=True)
    compute_cap = models.CharField(_("compute capability"), max_length=8, blank=True)
    is_listed = models.BooleanField(_("listed"), default=True)
    is_suggested = models.BooleanField(_("suggested"), default=False)
    vendor_url = models.URLField(_("vendor's page"), blank=True)
    summary = models.TextField(_("summary"), blank=True)

    objects: ClassVar[models.Manager[Gpu]] = models.Manager()

    class Meta:
        verbose_name = _("GPU")
        verbose_name_plural = _("GPUs")
        ordering = ["position", "key"]

    def __str__(self) -> str:
        return self.name


class Provider(models.Model):
    """A place machines are rented from; `is_sample` data is shown as such, never stale, never rentable."""

    key = models.SlugField(_("key"), max_length=40, unique=True)
    adaptor = models.CharField(_("adaptor"), max_length=40, blank=True)
    name = models.CharField(_("name"), max_length=80)
    tier = models.CharField(_("tier"), max_length=20, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    is_sample = models.BooleanField(_("sample data"), default=False)
    stale_after = models.DurationField(_("stale after"), null=True, blank=True)
    blurb = models.TextField(_("blurb"), blank=True)

    objects: ClassVar[models.Manager[Provider]] = models.Manager()

    class Meta:
        verbose_name = _("provider")
        verbose_name_plural = _("providers")

    def __str__(self) -> str:
        return self.name


class GpuAlias(models.Model):
    """How a provider names a variant; without a provider, the name holds for all."""

    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, null=True, blank=True, related_name="aliases", verbose_name=_("provider")
    )
    raw_name = models.CharField(_("name at the provider"), max_length=120)
    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="aliases", verbose_name=_("GPU"))
    form_factor = models.CharField(_("form factor"), max_length=20, blank=True)
    memory_gb = models.DecimalField(_("memory, GB"), max_digits=8, decimal_places=2, null=True, blank=True)

    class Meta:
        verbose_name = _("GPU alias")
        verbose_name_plural = _("GPU aliases")
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "raw_name", "memory_gb"], name="gpualias_unique", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return self.raw_name


class FleetHost(models.Model):
    """One of the operator's own machines."""

    class Mode(models.TextChoices):
        CONTAINER = "container", _("container")
        VM = "vm", _("virtual machine")
        BARE = "bare", _("bare metal")

    class State(models.TextChoices):
        READY = "ready", _("ready")
        LEASED = "leased", _("leased")
        DIRTY = "dirty", _("dirty")
        QUARANTINED = "quarantined", _("quarantined")

    name = models.CharField(_("name"), max_length=80, unique=True)
    address = models.CharField(_("address"), max_length=255)
    port = models.PositiveIntegerField(_("SSH port"), default=22)
    user = models.CharField(_("user"), max_length=64, default="root")
    host_key = models.TextField(_("host key"), blank=True)
    access_key = models.TextField(_("our key to it, encrypted"), blank=True)
    reset_command = models.CharField(_("reset command"), max_length=500, blank=True)
    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="hosts", verbose_name=_("GPU"))
    gpu_count = models.PositiveIntegerField(_("GPUs"), default=1)
    ram = models.PositiveIntegerField(_("memory, GB"), null=True, blank=True)
    cost = usd(_("cost per GPU-hour, USD"))
    mode = models.CharField(_("mode"), max_length=10, choices=Mode.choices, default=Mode.BARE)
    splittable = models.BooleanField(_("splittable"), default=False)
    region = models.CharField(_("region"), max_length=40, blank=True)
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.READY)
    enabled = models.BooleanField(_("enabled"), default=True)
    is_demo = models.BooleanField(_("demo"), default=False)

    class Meta:
        verbose_name = _("own host")
        verbose_name_plural = _("own hosts")
        constraints = [models.CheckConstraint(condition=Q(gpu_count__gt=0, cost__gt=0), name="fleethost_positive")]

    def __str__(self) -> str:
        return self.name


class SourceRun(models.Model):
    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="runs", verbose_name=_("provider"))
    fetched_at = models.DateTimeField(_("fetched at"))
    complete = models.BooleanField(_("complete"))
    counts = models.JSONField(_("counts"), default=dict)
    error_code = models.CharField(_("error"), max_length=60, blank=True)

    class Meta:
        verbose_name = _("source run")
        verbose_name_plural = _("source runs")
        indexes = [models.Index(fields=["provider", "-fetched_at"], name="sourcerun_latest")]

    def __str__(self) -> str:
        return str(self.fetched_at)


class Offer(models.Model):
    """One thing that can be rented now."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="offers", verbose_name=_("provider"))
    external_id = models.CharField(_("id at the provider"), max_length=120)
    machine_ref = models.CharField(_("machine"), max_length=120, blank=True)
    fleet_host = models.ForeignKey(
        FleetHost, on_delete=models.CASCADE, null=True, blank=True, related_name="offers", verbose_name=_("own host")
    )
    gpu = models.ForeignKey(
        Gpu, on_delete=models.PROTECT, null=True, blank=True, related_name="offers", verbose_name=_("GPU")
    )
    raw_gpu = models.CharField(_("GPU as the provider names it"), max_length=120)
    form_factor = models.CharField(_("form factor"), max_length=20, blank=True)
    gpu_count = models.PositiveIntegerField(_("GPUs"))
    cost_per_gpu_hour = usd(_("cost per GPU-hour"))
    disk_cost = usd(_("disk cost per GB-month"), default=Decimal(0))
    traffic_cost = usd(_("traffic cost per GB"), default=Decimal(0))
    region = models.CharField(_("region"), max_length=40, blank=True)
    tier = models.CharField(_("tier"), max_length=20, blank=True)
    reliability = models.DecimalField(_("reliability"), max_digits=6, decimal_places=5, null=True, blank=True)
    driver = models.CharField(_("driver"), max_length=30, blank=True)
    cuda = models.CharField(_("CUDA"), max_length=10, blank=True)
    cpu = models.PositiveIntegerField(_("CPU cores"), null=True, blank=True)
    ram = models.PositiveIntegerField(_("memory, GB"), null=True, blank=True)
    disk = models.PositiveIntegerField(_("disk, GB"), null=True, blank=True)
    net_down = models.PositiveIntegerField(_("download, Mbit/s"), null=True, blank=True)
    stock = models.CharField(_("stock"), max_length=10, blank=True)
    rentable = models.BooleanField(_("rentable"), default=True)
    first_seen = models.DateTimeField(_("first seen"))
    last_seen = models.DateTimeField(_("last seen"))
    run = models.ForeignKey(
        SourceRun, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("source run")
    )
    raw = models.JSONField(_("as it came"), default=dict)

    class Meta:
        verbose_name = _("offer")
        verbose_name_plural = _("offers")
        constraints = [
            models.UniqueConstraint(fields=["provider", "external_id"], name="offer_unique"),
            models.CheckConstraint(condition=Q(gpu_count__gt=0, cost_per_gpu_hour__gt=0), name="offer_positive"),
        ]
        indexes = [
            models.Index(
                fields=["gpu", "gpu_count", "cost_per_gpu_hour"], name="offer_cheapest", condition=Q(rentable=True)
            )
        ]

    def __str__(self) -> str:
        return f"{self.gpu_count} x {self.raw_gpu}"


class LowestCost(models.Model):
    """The lowest cost per Gpu, count, provider and region, written with each batch."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="lowest_costs", verbose_name=_("GPU"))
    gpu_count = models.PositiveIntegerField()
    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="lowest_costs", verbose_name=_("provider")
    )
    region = models.CharField(max_length=40, blank=True)
    cost = usd()
    offers = models.PositiveIntegerField()
    gpus = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["gpu", "gpu_count", "provider", "region"], name="lowestcost_unique")
        ]

    def __str__(self) -> str:
        return str(self.cost)


class PriceRule(models.Model):
    """Cost -> price: a fixed price, or a percentage and/or amount on top, for the scope that is not null."""

    gpu = models.ForeignKey(
        Gpu, on_delete=models.CASCADE, null=True, blank=True, related_name="price_rules", verbose_name=_("GPU")
    )
    gpu_count = models.PositiveIntegerField(_("GPUs"), null=True, blank=True)
    provider = models.ForeignKey(
        Provider,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="price_rules",
        verbose_name=_("provider"),
    )
    region = models.CharField(_("region"), max_length=40, null=True, blank=True)
    fixed = usd(_("fixed price per GPU-hour"), null=True, blank=True)
    percent = models.DecimalField(_("margin, percent"), max_digits=8, decimal_places=4, null=True, blank=True)
    add = usd(_("margin per GPU-hour"), null=True, blank=True)
    floor = usd(_("never below"), null=True, blank=True)
    below_cost_ok = models.BooleanField(_("may sell below cost"), default=False)
    valid = DateTimeRangeField(_("valid"))
    active = models.BooleanField(_("active"), default=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("author")
    )
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created at"), db_default=Now())

    class Meta:
        verbose_name = _("price rule")
        verbose_name_plural = _("price rules")
        constraints = [
            models.CheckConstraint(
                condition=(
                    Q(fixed__isnull=False, percent__isnull=True, add__isnull=True)
                    | (Q(fixed__isnull=True) & (Q(percent__isnull=False) | Q(add__isnull=False)))
                ),
                name="pricerule_fixed_or_margin",
            ),
            models.CheckConstraint(condition=Q(fixed__isnull=True) | Q(fixed__gt=0), name="pricerule_fixed_positive"),
            # NULLs never conflict in EXCLUDE, so the scope is coalesced.
            ExclusionConstraint(
                name="pricerule_no_overlap",
                expressions=[
                    (Coalesce(F("gpu"), Value(0, output_field=models.BigIntegerField())), RangeOperators.EQUAL),
                    (Coalesce(F("gpu_count"), Value(0)), RangeOperators.EQUAL),
                    (Coalesce(F("provider"), Value(0, output_field=models.BigIntegerField())), RangeOperators.EQUAL),
                    (Coalesce(F("region"), Value("")), RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                ],
                condition=Q(active=True),
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"


class PricePoint(models.Model):
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="price_points", verbose_name=_("GPU"))
    gpu_count = models.PositiveIntegerField()
    hour = models.DateTimeField()
    low = usd()
    median = usd()
    available = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu", "gpu_count", "hour"], name="pricepoint_unique")]

    def __str__(self) -> str:
        return str(self.hour)


class Version(models.Model):
    """One row, counted up in the same transaction as anything that changes a public page."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    n = models.BigIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="version_single")]

    def __str__(self) -> str:
        return str(self.n)
