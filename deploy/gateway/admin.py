"""Endpoint keys and their use in the staff's pages: to look at, and to revoke any of them."""

from __future__ import annotations

from typing import cast

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.admin import TabularInline

from arrakis.accounts.models import User
from arrakis.audit.admin import ReadOnlyMixin, ReadOnlyModelAdmin
from arrakis.audit.services import record
from deploy.gateway import keys
from deploy.gateway.models import EndpointKey, KeyGrant, UsageHour


class GrantInline(ReadOnlyMixin, TabularInline):  # type: ignore[misc]
    model = KeyGrant
    extra = 0
    fields = ("deployment",)


@admin.register(EndpointKey)
class EndpointKeyAdmin(ReadOnlyModelAdmin):
    list_display = ("name", "id_part", "workspace", "enabled", "created_at", "expires_at", "revoked_at")
    list_filter = ("enabled", ("revoked_at", admin.EmptyFieldListFilter))
    search_fields = ("name", "id_part", "workspace__name")
    list_select_related = ("workspace",)
    ordering = ("-created_at",)
    inlines = (GrantInline,)
    actions = ("revoke",)
    fields = (
        "name",
        "id_part",
        "workspace",
        "enabled",
        "created_at",
        "expires_at",
        "revoked_at",
        "valid_until",
        "limits",
        "cidrs",
    )

    @admin.action(description=gettext_lazy("Revoke the chosen keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[EndpointKey]) -> None:
        for key in queryset.filter(revoked_at=None).select_related("workspace"):
            keys.revoke(key=key)
            record(
                actor=cast(User, request.user), action="staff.key_revoked", obj=key, workspace=key.workspace, after={}
            )
        messages.success(request, _("The chosen keys are revoked."))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("gateway.change_endpointkey")


@admin.register(UsageHour)
class UsageHourAdmin(ReadOnlyModelAdmin):
    list_display = ("hour", "key", "deployment", "requests", "errors", "prompt_tokens", "completion_tokens")
    list_select_related = ("key", "deployment")
    search_fields = ("key__name", "key__id_part", "deployment__name")
    ordering = ("-hour",)
    date_hierarchy = "hour"
