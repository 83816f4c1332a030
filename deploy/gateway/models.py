"""Keys to endpoints, what they open, and what was used."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from arrakis.ids import new_id


class EndpointKey(models.Model):
    """`sk-ark-<8><32>`: the 8 are `id_part`, and only the SHA-256 of the whole is stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(
        "accounts.Workspace", on_delete=models.CASCADE, related_name="endpoint_keys", verbose_name=_("workspace")
    )
    name = models.CharField(_("name"), max_length=120)
    id_part = models.CharField(_("begins with"), max_length=8, unique=True)
    sha256 = models.CharField(max_length=64, unique=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)
    replaces = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="replaced_by", verbose_name=_("replaces")
    )
    valid_until = models.DateTimeField(_("valid until"), null=True, blank=True)
    limits = models.JSONField(_("limits"), default=dict, blank=True)
    cidrs = ArrayField(models.CharField(max_length=43), default=list, blank=True, verbose_name=_("from addresses"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("endpoint key")
        verbose_name_plural = _("endpoint keys")

    def __str__(self) -> str:
        return self.name


class KeyGrant(models.Model):
    """What a key opens: one deployment, or (null) all of its workspace."""

    key = models.ForeignKey(EndpointKey, on_delete=models.CASCADE, related_name="grants", verbose_name=_("key"))
    deployment = models.ForeignKey(
        "deploy.Deployment",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="key_grants",
        verbose_name=_("deployment"),
    )

    class Meta:
        verbose_name = _("key grant")
        verbose_name_plural = _("key grants")
        constraints = [
            models.UniqueConstraint(fields=["key", "deployment"], name="keygrant_unique", nulls_distinct=False)
        ]

    def __str__(self) -> str:
        return str(self.pk)


class UsageHour(models.Model):
    key = models.ForeignKey(EndpointKey, on_delete=models.CASCADE, related_name="usage", verbose_name=_("key"))
    deployment = models.ForeignKey(
        "deploy.Deployment", on_delete=models.CASCADE, related_name="usage", verbose_name=_("deployment")
    )
    hour = models.DateTimeField(_("hour"))
    requests = models.BigIntegerField(_("requests"), default=0)
    errors = models.BigIntegerField(_("errors"), default=0)
    prompt_tokens = models.BigIntegerField(_("prompt tokens"), default=0)
    completion_tokens = models.BigIntegerField(_("completion tokens"), default=0)

    class Meta:
        verbose_name = _("hour of use")
        verbose_name_plural = _("hours of use")
        constraints = [models.UniqueConstraint(fields=["key", "deployment", "hour"], name="usagehour_unique")]

    def __str__(self) -> str:
        return str(self.hour)
