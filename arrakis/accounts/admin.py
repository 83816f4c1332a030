"""Users, workspaces and API tokens in the staff's pages."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm

from arrakis.accounts.models import ApiToken, Membership, SshKey, User, Workspace
from arrakis.audit.admin import AuditedMixin, AuditedModelAdmin, ReadOnlyMixin, ReadOnlyModelAdmin
from arrakis.audit.services import record

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(AuditedMixin, DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """What staff who are not superusers may do is a matter of groups."""


class UserCreationForm(BaseUserCreationForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("email", "name")


class SshKeyInline(ReadOnlyMixin, TabularInline):  # type: ignore[misc]
    model = SshKey
    extra = 0
    fields = readonly_fields = ("name", "fingerprint", "created_at")


@admin.register(User)
class UserAdmin(AuditedMixin, DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("email", "name", "is_staff", "is_active", "suspended_at", "created_at")
    list_filter = ("is_staff", "is_active")
    search_fields = ("email", "name")
    ordering = ("-created_at",)
    readonly_fields = ("last_login", "created_at")
    filter_horizontal = ("groups", "user_permissions")
    inlines = (SshKeyInline,)
    fieldsets = (
        (None, {"fields": ("email", "name", "password")}),
        (_("Preferences"), {"fields": ("locale", "tz")}),
        (_("State"), {"fields": ("is_active", "suspended_at", "last_login", "created_at")}),
        (_("Staff"), {"fields": ("is_staff", "is_superuser", "groups", "user_permissions")}),
    )
    add_fieldsets = ((None, {"classes": ("wide",), "fields": ("email", "name", "password1", "password2")}),)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Set by staff for somebody: written down, since it is as good as being them."""
        with transaction.atomic():
            before = User.objects.filter(pk=id).values_list("password", flat=True).first()
            response: HttpResponse = super().user_change_password(request, id, form_url)
            user = User.objects.filter(pk=id).first()
            if user is not None and user.password != before:
                record(actor=cast(User, request.user), action="staff.password_set", obj=user)
        return response

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Only a superuser makes staff: otherwise a right to edit users would be the right to everything."""
        if request.user.is_superuser:
            return self.readonly_fields
        return (*self.readonly_fields, "is_staff", "is_superuser", "groups", "user_permissions")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """...and only a superuser edits staff, whose password would be as good as the right itself."""
        if isinstance(obj, User) and (obj.is_staff or obj.is_superuser) and not request.user.is_superuser:
            return False
        return bool(super().has_change_permission(request, obj))


class MembershipInline(TabularInline):  # type: ignore[misc]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Workspace)
class WorkspaceAdmin(AuditedModelAdmin):
    list_display = ("name", "slug", "members_count", "max_machines", "max_usd_per_hour", "frozen_reason", "created_at")
    list_filter = (("frozen_reason", admin.EmptyFieldListFilter),)
    search_fields = ("name", "slug", "members__email")
    ordering = ("-created_at",)
    readonly_fields = ("created_at",)
    inlines = (MembershipInline,)
    fieldsets = (
        (None, {"fields": ("name", "slug", "country", "display_currency", "created_at")}),
        (_("Limits"), {"fields": ("max_machines", "max_usd_per_hour", "frozen_reason")}),
        (_("Billing"), {"fields": ("billing",), "classes": ("collapse",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        rows: QuerySet[Workspace] = super().get_queryset(request)
        return rows.annotate(n_members=Count("memberships", distinct=True))

    @admin.display(description=_("members"), ordering="n_members")
    def members_count(self, workspace: Workspace) -> int:
        count: int = workspace.n_members  # type: ignore[attr-defined]
        return count


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyModelAdmin):
    list_display = ("prefix", "name", "workspace", "user", "created_at", "last_used_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("prefix", "name", "user__email", "workspace__name")
    list_select_related = ("workspace", "user")
    ordering = ("-created_at",)
    fields = (
        "prefix",
        "name",
        "workspace",
        "user",
        "scopes",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
