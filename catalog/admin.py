"""The catalog in the staff's pages. What is no longer wanted is switched off, not deleted: history names it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, OuterRef, QuerySet, Subquery, URLField
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from modeltranslation.utils import build_localized_fieldname

from arrakis import localize
from arrakis.accounts.models import User
from arrakis.audit.admin import AuditedModelAdmin, ReadOnlyModelAdmin
from catalog import ingest, services, versions
from catalog.forms import FleetHostForm, GpuRowForm, PriceRuleForm
from catalog.models import FleetHost, Gpu, GpuAlias, Offer, PriceRule, Provider, SourceRun
from catalog.sources import fleet

if TYPE_CHECKING:
    from django.forms import ModelForm

    _Form = ModelForm[Any]

_CHANGED = "arrakis.market_changed"


class MarketAdmin(AuditedModelAdmin):
    """What is saved here may show on any public page.

    `market_changed` runs once, when all rows of the request are written and in their transaction: it takes locks that
    others take last too, and taken between two rows they could deadlock.
    """

    def lock(self) -> None:
        """What must be locked before the first of several rows is written."""

    def market_changed(self) -> None:
        versions.bump()

    def save_model(self, request: HttpRequest, obj: Model, form: _Form, change: bool) -> None:
        super().save_model(request, obj, form, change)
        request.META[_CHANGED] = True

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return self._in_one(request, super().changelist_view, request, extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return self._in_one(request, super().changeform_view, request, object_id, form_url, extra_context)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def _in_one(self, request: HttpRequest, view: Callable[..., HttpResponse], *args: Any) -> HttpResponse:
        with transaction.atomic():
            if request.method == "POST":
                self.lock()
            response = view(*args)
            if request.META.pop(_CHANGED, False):
                self.market_changed()
        return response


def _translated(name: str) -> tuple[str, ...]:
    return tuple(build_localized_fieldname(name, code) for code, _name in settings.LANGUAGES)


@admin.register(Gpu)
class GpuAdmin(MarketAdmin):
    list_display = ("name", "memory_gb", "position", "is_suggested", "is_listed", "fixed_price")
    list_editable = ("position", "is_suggested", "is_listed")
    list_filter = ("is_suggested", "is_listed", "kind", "vendor")
    search_fields = ("name", "key")
    formfield_overrides = {URLField: {"assume_scheme": "https"}}
    fieldsets = (
        (None, {"fields": ("key", "name", "vendor", "kind", "memory_gb", "reported_mib", "compute_cap", "vendor_url")}),
        (_("On pages"), {"fields": ("position", "is_listed", "is_suggested", *_translated("summary"))}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Gpu]:
        fixed = PriceRule.objects.filter(
            gpu=OuterRef("pk"), gpu_count=None, provider=None, region=None, active=True, valid__contains=Now()
        )
        gpus: QuerySet[Gpu] = super().get_queryset(request)
        return gpus.annotate(fixed_now=Subquery(fixed.values("fixed")[:1]))

    def lock(self) -> None:
        services.lock_gpus()

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> type[_Form]:
        form: type[_Form] = super().get_changelist_form(request, **{**kwargs, "form": GpuRowForm})
        return form

    def get_readonly_fields(self, request: HttpRequest, obj: Gpu | None = None) -> tuple[str, ...]:
        return ("key",) if obj else ()

    @admin.display(description=_("Fixed price, USD per GPU-hour"))
    def fixed_price(self, gpu: Gpu) -> str:
        price: Decimal | None = getattr(gpu, "fixed_now", None)
        return "" if price is None else localize.money(price)

    def save_model(self, request: HttpRequest, obj: Any, form: _Form, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "fixed_price" in form.changed_data:
            services.write_fixed_price(gpu=obj, price=form.cleaned_data["fixed_price"], actor=cast(User, request.user))


@admin.register(GpuAlias)
class GpuAliasAdmin(AuditedModelAdmin):
    """An alias is taken away by deleting it: it holds from the next batch on."""

    list_display = ("raw_name", "memory_gb", "gpu", "form_factor", "provider")
    list_filter = ("gpu", "provider")
    search_fields = ("raw_name",)
    list_select_related = ("gpu", "provider")
    autocomplete_fields = ("gpu",)


@admin.register(Provider)
class ProviderAdmin(MarketAdmin):
    list_display = ("name", "key", "adaptor", "enabled", "is_sample", "stale_after")
    list_editable = ("enabled",)
    search_fields = ("name", "key")
    fields = ("key", "name", "adaptor", "tier", "enabled", "is_sample", "stale_after", *_translated("blurb"))

    def get_readonly_fields(self, request: HttpRequest, obj: Provider | None = None) -> tuple[str, ...]:
        return ("key",) if obj else ()


@admin.register(FleetHost)
class FleetHostAdmin(MarketAdmin):
    form = FleetHostForm
    list_display = ("name", "address", "gpu_count", "gpu", "cost", "mode", "state", "enabled")
    list_editable = ("enabled",)
    list_filter = ("state", "enabled", "mode")
    search_fields = ("name", "address")
    list_select_related = ("gpu",)
    readonly_fields = ("our_key",)

    @admin.display(description=_("Our key, for the host's authorized_keys"))
    def our_key(self, host: FleetHost) -> str:
        return services.public_access_key(host) or str(_("It is made when the host is saved."))

    def save_model(self, request: HttpRequest, obj: Any, form: _Form, change: bool) -> None:
        services.give_access_key(obj)
        super().save_model(request, obj, form, change)

    def market_changed(self) -> None:
        fleet.refresh()


@admin.register(Offer)
class OfferAdmin(MarketAdmin):
    """Facts are the provider's; staff may only take an offer off the market, until the provider's next batch."""

    list_display = ("external_id", "provider", "gpu", "raw_gpu", "gpu_count", "cost_per_gpu_hour", "region", "rentable")
    list_filter = ("rentable", "provider", "gpu")
    search_fields = ("external_id", "machine_ref", "raw_gpu")
    list_select_related = ("provider", "gpu")

    def get_readonly_fields(self, request: HttpRequest, obj: Offer | None = None) -> tuple[str, ...]:
        return tuple(field.name for field in Offer._meta.fields if field.name != "rentable")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: _Form, change: bool) -> None:
        provider = ingest.lock(obj.provider)
        super().save_model(request, obj, form, change)
        ingest.rewrite_lowest_costs(provider)


@admin.register(PriceRule)
class PriceRuleAdmin(MarketAdmin):
    form = PriceRuleForm
    list_display = ("scope", "fixed", "percent", "add", "floor", "valid", "active", "author", "reason")
    list_filter = ("active", "gpu", "provider")
    list_select_related = ("gpu", "provider", "author")
    fieldsets = (
        (_("What it covers"), {"fields": ("gpu", "gpu_count", "provider", "region")}),
        (_("Price"), {"fields": ("fixed", "percent", "add", "floor", "below_cost_ok")}),
        (_("When and why"), {"fields": ("valid", "active", "reason", "author", "written_at")}),
    )
    readonly_fields = ("author", "written_at")

    @admin.display(description=_("created at"))
    def written_at(self, rule: PriceRule) -> datetime | None:
        """The database's default stands in the field until the rule is written."""
        return rule.created_at if rule.pk else None

    @admin.display(description=_("covers"))
    def scope(self, rule: PriceRule) -> str:
        count = None if rule.gpu_count is None else f"{rule.gpu_count} x"
        parts = [count, rule.gpu, rule.provider, rule.region]
        return " ".join(str(part) for part in parts if part is not None) or str(_("everything"))

    def save_model(self, request: HttpRequest, obj: Any, form: _Form, change: bool) -> None:
        if not change:
            obj.author = cast(User, request.user)
        super().save_model(request, obj, form, change)


@admin.register(SourceRun)
class SourceRunAdmin(ReadOnlyModelAdmin):
    list_display = ("provider", "fetched_at", "complete", "counts", "error_code")
    list_filter = ("provider", "complete")
    list_select_related = ("provider",)
    ordering = ("-id",)
