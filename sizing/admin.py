"""Models in the staff's pages; the summary in every published language, one tab each."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from modeltranslation.utils import build_localized_fieldname
from unfold.admin import TabularInline

from arrakis.audit.admin import AuditedModelAdmin, ReadOnlyMixin
from sizing.models import HubModel, SlugHistory


class SlugHistoryInline(ReadOnlyMixin, TabularInline):  # type: ignore[misc]
    model = SlugHistory
    verbose_name_plural = _("old addresses")
    extra = 0


@admin.register(HubModel)
class HubModelAdmin(AuditedModelAdmin):
    list_display = ("repo_id", "name", "params_total", "stored_as", "licence", "released_on", "is_listed", "interest")
    list_editable = ("is_listed", "interest")
    list_filter = ("is_listed", "gated", "stored_as")
    search_fields = ("repo_id", "name", "slug")
    inlines = (SlugHistoryInline,)
    fieldsets = (
        (None, {"fields": ("endpoint", "repo_id", "revision", "name", "slug", "is_listed", "interest")}),
        (
            _("Facts"),
            {
                "fields": (
                    "params_total",
                    "params_active",
                    "experts",
                    "experts_per_token",
                    "context",
                    "stored_as",
                    "licence",
                    "released_on",
                    "gated",
                    "facts_source",
                    "checked_at",
                )
            },
        ),
        # One tab a published language. Not modeltranslation's own tabs: those fetch jQuery UI from elsewhere.
        *(
            (name, {"fields": (build_localized_fieldname("summary", code),), "classes": ("tab",)})
            for code, name in settings.LANGUAGES
        ),
        (_("Files"), {"fields": ("config", "tensors", "files"), "classes": ("collapse",)}),
    )
