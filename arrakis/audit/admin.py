"""The audit trail in the staff's pages, and the mixin that writes it for what staff edit there."""

from __future__ import annotations

import json
from typing import Any, cast

from django.contrib import admin
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from arrakis.accounts.models import User
from arrakis.audit.models import Record
from arrakis.audit.services import record

_SECRET = ("key", "token", "password", "secret", "ciphertext", "sha256")
_NOT_SECRET = frozenset({"key", "public_key", "host_key"})
"""Fields that name things or are public; every other one that sounds like a secret is written as changed, not shown."""


class ReadOnlyMixin:
    """Staff may look; nobody adds, changes or deletes here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AuditedMixin:
    """For a ModelAdmin: what staff add, change or delete is written to the audit trail, before and after.

    The admin's view is one transaction, so that a change without its record cannot be.
    """

    def save_model(self, request: HttpRequest, obj: models.Model, form: ModelForm[Any], change: bool) -> None:
        before = facts(type(obj)._default_manager.get(pk=obj.pk)) if change else {}
        super().save_model(request, obj, form, change)  # type: ignore[misc]
        saved = facts(type(obj)._default_manager.get(pk=obj.pk))
        changed = {name for name in saved if before.get(name, _MISSING) != saved[name]}
        if changed or not change:
            record(
                actor=cast(User, request.user),
                action="staff.changed" if change else "staff.added",
                obj=obj,
                before={name: _shown(name, before[name]) for name in changed} if change else None,
                after={name: _shown(name, saved[name]) for name in changed},
            )

    def save_related(self, request: HttpRequest, form: ModelForm[Any], formsets: Any, change: bool) -> None:
        """What an object is joined to (groups, permissions), which its own row does not say."""
        before = _joined(form.instance)
        super().save_related(request, form, formsets, change)  # type: ignore[misc]
        after = _joined(form.instance)
        if changed := [name for name in after if after[name] != before[name]]:
            record(
                actor=cast(User, request.user),
                action="staff.changed",
                obj=form.instance,
                before={name: before[name] for name in changed},
                after={name: after[name] for name in changed},
            )

    def save_formset(self, request: HttpRequest, form: ModelForm[Any], formset: Any, change: bool) -> None:
        """Rows edited on the page of another: each is written down by itself."""
        # Read anew: the formset's own rows already hold what was typed.
        keys = [row.pk for row in formset.get_queryset()]
        before = {row.pk: facts(row) for row in formset.model._default_manager.filter(pk__in=keys)}
        gone = [deleted.instance.pk for deleted in formset.deleted_forms if deleted.instance.pk in before]
        super().save_formset(request, form, formset, change)  # type: ignore[misc]
        for row in formset.new_objects:
            _record_row(request, "staff.added", row, None, facts(row))
        for row, _fields in formset.changed_objects:
            now = facts(row)
            was = {name: value for name, value in before[row.pk].items() if now[name] != value}
            _record_row(request, "staff.changed", row, was, {name: now[name] for name in was})
        for key in gone:
            _record_row(request, "staff.deleted", formset.model(pk=key), before[key], None)

    def delete_model(self, request: HttpRequest, obj: models.Model) -> None:
        _record_deleted(request, obj)
        super().delete_model(request, obj)  # type: ignore[misc]

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        for obj in queryset:
            _record_deleted(request, obj)
        super().delete_queryset(request, queryset)  # type: ignore[misc]


class AuditedModelAdmin(AuditedMixin, ModelAdmin):  # type: ignore[misc]
    """What every editable part of the staff's pages is made of."""

    list_fullwidth = True
    warn_unsaved_form = True


class ReadOnlyModelAdmin(ReadOnlyMixin, ModelAdmin):  # type: ignore[misc]
    list_fullwidth = True


_MISSING = object()


def facts(obj: models.Model) -> dict[str, Any]:
    """Every stored field of `obj` by name; related objects by their id."""
    return {field.name: field.value_from_object(obj) for field in obj._meta.concrete_fields}


def _joined(obj: models.Model) -> dict[str, list[str]]:
    """Names of what `obj` is joined to by plain many-to-many fields, in order."""
    throughs = {field.name: field.remote_field.through for field in obj._meta.many_to_many}
    plain = [name for name, through in throughs.items() if through is not None and through._meta.auto_created]
    return {name: sorted(map(str, getattr(obj, name).all())) for name in plain}


def _record_row(
    request: HttpRequest,
    action: str,
    row: models.Model,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    def shown(values: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if values is None else {name: _shown(name, value) for name, value in values.items()}

    record(actor=cast(User, request.user), action=action, obj=row, before=shown(before), after=shown(after))


def _record_deleted(request: HttpRequest, obj: models.Model) -> None:
    before = {name: _shown(name, value) for name, value in facts(obj).items()}
    record(actor=cast(User, request.user), action="staff.deleted", obj=obj, before=before)


def _shown(name: str, value: Any) -> Any:
    if name not in _NOT_SECRET and any(word in name for word in _SECRET):
        return "***" if value else ""
    if isinstance(value, str | int | bool | dict | list) or value is None:
        return value
    try:
        return json.loads(DjangoJSONEncoder().encode(value))
    except TypeError:  # a range has no JSON of its own
        return str(value)


@admin.register(Record)
class RecordAdmin(ReadOnlyModelAdmin):
    list_display = ("at", "action", "object_type", "object_id", "actor", "workspace")
    list_filter = ("action", "object_type")
    search_fields = ("object_id", "actor__email", "action")
    list_select_related = ("actor", "workspace")
    ordering = ("-id",)
    date_hierarchy = "at"
    fieldsets = (
        (None, {"fields": ("at", "action", "object_type", "object_id", "actor", "impersonator", "workspace")}),
        (_("What changed"), {"fields": ("before", "after")}),
    )
