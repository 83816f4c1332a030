"""What is known of a model: its facts as the hub has them, and where it is found."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _


class HubModel(models.Model):
    endpoint = models.URLField(_("hub"), default="https://huggingface.co")
    repo_id = models.CharField(_("repository"), max_length=200)
    revision = models.CharField(_("commit"), max_length=64, blank=True)
    name = models.CharField(_("name"), max_length=120)
    slug = models.SlugField(_("slug"), max_length=140, unique=True)
    params_total = models.BigIntegerField(_("parameters"))
    params_active = models.BigIntegerField(_("active parameters"), null=True, blank=True)
    experts = models.PositiveIntegerField(_("experts"), null=True, blank=True)
    experts_per_token = models.PositiveIntegerField(_("experts per token"), null=True, blank=True)
    context = models.PositiveIntegerField(_("context, tokens"), null=True, blank=True)
    stored_as = models.CharField(_("published in"), max_length=20, blank=True)
    licence = models.CharField(_("licence"), max_length=60, blank=True)
    released_on = models.DateField(_("released on"), null=True, blank=True)
    gated = models.BooleanField(_("gated"), default=False)
    config = models.JSONField(default=dict, blank=True)
    tensors = models.JSONField(default=dict, blank=True)
    files = models.JSONField(default=list, blank=True)
    """Files an engine needs: [{"path", "size", "sha256", "format"}], newest known for `revision`."""
    facts_source = models.CharField(_("source of the facts"), max_length=300, blank=True)
    checked_at = models.DateTimeField(_("checked at"), null=True, blank=True)
    is_listed = models.BooleanField(_("listed"), default=True)
    interest = models.PositiveIntegerField(_("interest"), default=0)
    summary = models.TextField(_("summary"), blank=True)

    objects: ClassVar[models.Manager[HubModel]] = models.Manager()

    class Meta:
        verbose_name = _("model")
        verbose_name_plural = _("models")
        ordering = ["-interest", "slug"]
        constraints = [models.UniqueConstraint("endpoint", Lower("repo_id"), name="hubmodel_unique")]

    def __str__(self) -> str:
        return self.repo_id


class SlugHistory(models.Model):
    """Old addresses redirect."""

    slug = models.SlugField(max_length=140, unique=True)
    model = models.ForeignKey(HubModel, on_delete=models.CASCADE, related_name="old_slugs", verbose_name=_("model"))

    def __str__(self) -> str:
        return self.slug
