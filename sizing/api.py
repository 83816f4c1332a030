"""`/api/v1/models` and `/api/v1/models/{owner}/{name}/sizing`: what pages say of a model, as figures. Open to all."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from arrakis.api import ApiView, Pages, documented
from arrakis.errors import NotFound
from catalog.queries import market
from sizing import fit, memory
from sizing.models import HubModel


class ModelAnswer(serializers.ModelSerializer[HubModel]):
    model = serializers.CharField(source="repo_id", read_only=True)
    params = serializers.IntegerField(source="params_total", read_only=True)

    class Meta:
        model = HubModel
        fields = [
            "model",
            "name",
            "slug",
            "params",
            "params_active",
            "experts",
            "experts_per_token",
            "context",
            "stored_as",
            "licence",
            "released_on",
            "gated",
        ]


class ModeAnswer(serializers.Serializer[Any]):
    gb = serializers.CharField(help_text=_("Exact decimal gigabytes."))
    count = serializers.IntegerField(allow_null=True, help_text=_("GPUs on one machine; null: no single machine."))
    gpus = serializers.ListField(child=serializers.CharField())
    price = serializers.CharField(allow_null=True, help_text=_("USD per hour for all, at the lowest live price."))
    rent_price = serializers.CharField(allow_null=True, help_text=_("USD per hour of the cheapest single offer."))


class SizingAnswer(serializers.Serializer[Any]):
    model = serializers.CharField()
    params = serializers.IntegerField()
    modes = serializers.DictField(child=ModeAnswer(), help_text=_("By mode: serve-16, serve-8, serve-4, qlora..."))


class ModelsView(ApiView):
    permission_classes = (AllowAny,)

    @documented(ModelAnswer, many=True, errors=(429,), operation_id="models")
    def get(self, request: Request) -> Response:
        """Models known here, in pages of `limit` from `offset`."""
        pages = Pages()
        rows = pages.paginate_queryset(HubModel.objects.filter(is_listed=True), request, view=self)
        return pages.get_paginated_response(ModelAnswer(rows, many=True).data)


class SizingView(ApiView):
    permission_classes = (AllowAny,)

    @documented(SizingAnswer, errors=(404, 429), operation_id="model_sizing")
    def get(self, request: Request, owner: str, name: str) -> Response:
        """Memory to serve and to fine-tune it by the rules of thumb, and the smallest configuration that holds it."""
        model = HubModel.objects.filter(repo_id__iexact=f"{owner}/{name}", is_listed=True).first()
        if model is None:
            raise NotFound("model_unknown", model=f"{owner}/{name}"[:200], can="")
        return Response(SizingAnswer(sizing(model)).data)


def sizing(model: HubModel) -> dict[str, Any]:
    gpus = market().suggested
    needs = memory.requirements(memory.billions(model.params_total))
    modes = {mode: _mode(fit.smallest(gb, gpus)) for mode, gb in needs.items()}
    return {"model": model.repo_id, "params": model.params_total, "modes": modes}


def _mode(found: fit.Fit) -> dict[str, Any]:
    return {
        "gb": found.data_gb,
        "count": found.count,
        "gpus": [gpu.name for gpu in found.gpus],
        "price": found.data_price or None,
        "rent_price": found.data_rent_price or None,
    }
