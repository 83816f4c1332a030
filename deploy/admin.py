"""Quotes, deployments and machines in the staff's pages: everything to look at, and the two things staff may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.admin import TabularInline

from arrakis import localize
from arrakis.accounts.models import User
from arrakis.audit.admin import ReadOnlyMixin, ReadOnlyModelAdmin
from deploy import metering, reasons, staff
from deploy.models import Attempt, Deployment, Event, Machine, MachineSshKey, Orphan, Quote, Replica, Window


class _Inline(ReadOnlyMixin, TabularInline):  # type: ignore[misc]
    extra = 0
    show_change_link = False


@admin.register(Quote)
class QuoteAdmin(ReadOnlyModelAdmin):
    list_display = ("id", "workspace", "repo_id", "engine", "price", "expires_at", "used_at", "created_at")
    list_filter = ("engine", ("used_at", admin.EmptyFieldListFilter))
    search_fields = ("=id", "repo_id", "workspace__name")
    list_select_related = ("workspace",)
    ordering = ("-created_at",)
    fields = (
        "workspace",
        "user",
        "repo_id",
        "revision",
        "engine",
        "price_per_hour",
        "max_cost_per_hour",
        "hold",
        "estimated_ready_seconds",
        "created_at",
        "expires_at",
        "used_at",
        "offer_facts",
        "plan",
    )

    @admin.display(description=gettext_lazy("price per hour"), ordering="price_per_hour")
    def price(self, quote: Quote) -> str:
        return localize.money(quote.price_per_hour)


class ReplicaInline(_Inline):
    model = Replica
    fields = ("ordinal", "generation", "state", "state_since", "due_at", "deadline_at", "tries")


class EventInline(_Inline):
    model = Event
    fields = ("at", "said", "fault", "actor")
    readonly_fields = ("said",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        rows: QuerySet[Event] = super().get_queryset(request)
        return rows.select_related("actor")

    @admin.display(description=gettext_lazy("what happened"))
    def said(self, event: Event) -> str:
        return f"{reasons.sentence(event.code, event.params)} [{event.code}]"


class SshKeyInline(_Inline):
    model = MachineSshKey
    fields = ("fingerprint", "user", "installed_at", "removed_at")


@admin.register(Deployment)
class DeploymentAdmin(ReadOnlyModelAdmin):
    list_display = ("name", "workspace", "repo_id", "engine", "state", "fault", "price", "requested_at", "ended_at")
    list_filter = ("state", "fault", "engine")
    search_fields = ("=id", "name", "repo_id", "workspace__name")
    list_select_related = ("workspace",)
    date_hierarchy = "requested_at"
    inlines = (ReplicaInline, SshKeyInline, EventInline)
    actions = ("stop",)
    readonly_fields = ("why", "cost", "tries", "machines")
    fieldsets = (
        (None, {"fields": ("name", "workspace", "created_by", "state", "desired", "why", "fault")}),
        (
            gettext_lazy("What runs"),
            {"fields": ("repo_id", "revision", "engine", "engine_version", "served_name", "args", "plan")},
        ),
        (gettext_lazy("Money"), {"fields": ("price_per_hour", "price_until", "cost", "limits", "quote")}),
        (gettext_lazy("Machines"), {"fields": ("tries", "machines")}),
        (
            gettext_lazy("When"),
            {
                "fields": (
                    "requested_at",
                    "free_until",
                    "let_in_at",
                    "first_served_at",
                    "stop_requested_at",
                    "ended_at",
                )
            },
        ),
    )

    @admin.display(description=gettext_lazy("price per hour"), ordering="price_per_hour")
    def price(self, deployment: Deployment) -> str:
        return localize.money(deployment.price_per_hour)

    @admin.display(description=gettext_lazy("reason"))
    def why(self, deployment: Deployment) -> str:
        if not deployment.reason_code:
            return "-"
        return f"{reasons.sentence(deployment.reason_code, deployment.reason_params)} [{deployment.reason_code}]"

    @admin.display(description=gettext_lazy("cost so far"))
    def cost(self, deployment: Deployment) -> str:
        return localize.money(metering.cost_so_far(deployment))

    @admin.display(description=gettext_lazy("tries to get a machine"))
    def tries(self, deployment: Deployment) -> SafeString | str:
        rows = Attempt.objects.filter(replica__deployment=deployment).select_related("machine").order_by("replica", "n")
        return _list(
            f"{row.n}. {row.offer_facts.get('provider', '')} {row.offer_facts.get('external_id', '')}: "
            f"{row.get_outcome_display()} {row.reason_code}"
            for row in rows
        )

    @admin.display(description=gettext_lazy("machines"))
    def machines(self, deployment: Deployment) -> SafeString | str:
        rows = Machine.objects.filter(quote_id=deployment.quote_id).order_by("asked_at")
        return format_html_join(
            "",
            '<div><a href="{}">{}</a> {}</div>',
            (
                (reverse("admin:deploy_machine_change", args=[row.pk]), row.label, row.get_state_display())
                for row in rows
            ),
        ) or _("none yet")

    @admin.action(description=gettext_lazy("Stop the chosen deployments"), permissions=["operate"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Deployment]) -> None:
        for deployment in queryset.select_related("workspace"):
            staff.stop(deployment=deployment, actor=cast(User, request.user))
        messages.success(request, _("The chosen deployments are being stopped."))

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("deploy.change_deployment")


class WindowInline(_Inline):
    model = Window
    fields = ("n", "starts_at", "ends_at", "used_until", "price_per_hour")


@admin.register(Machine)
class MachineAdmin(ReadOnlyModelAdmin):
    list_display = (
        "label",
        "workspace",
        "provider",
        "state",
        "external_id",
        "ssh_host",
        "asked_at",
        "ready_at",
        "due_at",
    )
    list_filter = ("state", "provider")
    search_fields = ("=id", "label", "external_id", "ssh_host", "workspace__name")
    list_select_related = ("workspace", "provider")
    ordering = ("-asked_at",)
    inlines = (WindowInline,)
    actions = ("release",)
    readonly_fields = ("deployment",)
    fieldsets = (
        (None, {"fields": ("label", "deployment", "workspace", "state", "provider", "fleet_host", "external_id")}),
        (gettext_lazy("Reached by"), {"fields": ("ssh_host", "ssh_port", "ssh_user", "host_key")}),
        (gettext_lazy("Money"), {"fields": ("price_per_hour", "cost_per_hour", "charged_from")}),
        (
            gettext_lazy("When"),
            {"fields": ("asked_at", "ready_at", "release_asked_at", "absence_proven_at", "due_at", "tries", "missed")},
        ),
    )

    @admin.display(description=gettext_lazy("deployment"))
    def deployment(self, machine: Machine) -> SafeString | str:
        found = Deployment.objects.filter(quote_id=machine.quote_id).first()
        if found is None:
            return "-"
        return format_html('<a href="{}">{}</a>', reverse("admin:deploy_deployment_change", args=[found.pk]), found)

    @admin.action(description=gettext_lazy("Release the chosen machines"), permissions=["operate"])
    def release(self, request: HttpRequest, queryset: QuerySet[Machine]) -> None:
        for machine in queryset.select_related("workspace", "quote__deployment"):
            staff.release(machine=machine, actor=cast(User, request.user))
        messages.success(request, _("The chosen machines are being released."))

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("deploy.change_machine")


@admin.register(Orphan)
class OrphanAdmin(ReadOnlyModelAdmin):
    list_display = ("label", "provider", "place", "sightings", "first_seen", "last_seen", "released_at")
    list_filter = ("provider", ("released_at", admin.EmptyFieldListFilter))
    search_fields = ("label", "external_id")
    list_select_related = ("provider",)
    ordering = ("-last_seen",)


def _list(lines: Iterable[Any]) -> SafeString | str:
    return format_html_join("", "<div>{}</div>", ((line,) for line in lines)) or "-"
