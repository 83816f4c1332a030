"""Who did what, before and after. Append-only: a trigger refuses UPDATE and DELETE."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Record(models.Model):
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("workspace")
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("actor")
    )
    impersonator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+", verbose_name=_("impersonator")
    )
    action = models.CharField(_("action"), max_length=60)
    object_type = models.CharField(_("object type"), max_length=60)
    object_id = models.CharField(_("object"), max_length=64)
    before = models.JSONField(_("before"), null=True)
    after = models.JSONField(_("after"), null=True)
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        verbose_name = _("audit record")
        verbose_name_plural = _("audit records")
        indexes = [models.Index(fields=["object_type", "object_id"], name="audit_object")]

    def __str__(self) -> str:
        return self.action
