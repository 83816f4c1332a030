"""`/api/v1/gpus` and `/api/v1/offers`: the market as pages show it, and what can really be rented now. Open to all."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from arrakis.api import ApiView, documented
from arrakis.localize import plain
from catalog.queries import GpuPrice, PricedOffer, market, quotable_offers


class GpuAnswer(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    memory_gb = serializers.CharField(help_text=_("Decimal gigabytes."))
    is_suggested = serializers.BooleanField()
    price_per_gpu_hour = serializers.CharField(allow_null=True, help_text=_("The lowest live price; null: none."))
    rent_prices = serializers.DictField(
        child=serializers.CharField(),
        help_text=_("By count: the cheapest machine that holds so many, whole, per hour."),
    )
    gpus = serializers.IntegerField(help_text=_("How many stand on live machines."))


class OfferAnswer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    provider = serializers.CharField()
    gpu = serializers.CharField()
    gpu_name = serializers.CharField()
    gpu_count = serializers.IntegerField()
    region = serializers.CharField()
    price_per_gpu_hour = serializers.CharField()
    price_per_hour = serializers.CharField()
    last_seen = serializers.DateTimeField()


class GpuPage(serializers.Serializer[Any]):
    seen_at = serializers.DateTimeField(allow_null=True)
    is_sample = serializers.BooleanField(help_text=_("Whether prices are sample data, which cannot be rented."))
    results = GpuAnswer(many=True)


class OfferPage(serializers.Serializer[Any]):
    results = OfferAnswer(many=True)


class OpenView(ApiView):
    """Needs no token; one that is sent must be good."""

    permission_classes = (AllowAny,)


class GpusView(OpenView):
    @documented(GpuPage, errors=(429,), operation_id="gpus")
    def get(self, request: Request) -> Response:
        """Listed GPUs in catalogue order, with what pages say they cost."""
        now = market()
        shown = GpuPage(
            {"seen_at": now.seen_at, "is_sample": now.is_sample, "results": [_gpu(gpu) for gpu in now.gpus]}
        )
        return Response(shown.data)


class OffersView(OpenView):
    @documented(OfferPage, errors=(429,), operation_id="offers")
    def get(self, request: Request) -> Response:
        """Machines that can be rented now, the cheapest whole price first; sample data is never among them."""
        return Response(OfferPage({"results": [_offer(priced) for priced in quotable_offers()]}).data)


def _gpu(gpu: GpuPrice) -> dict[str, Any]:
    return {
        "key": gpu.key,
        "name": gpu.name,
        "memory_gb": f"{gpu.memory_gb.normalize():f}",
        "is_suggested": gpu.is_suggested,
        "price_per_gpu_hour": None if gpu.price is None else plain(gpu.price),
        "rent_prices": {str(count): plain(price) for count, price in gpu.rent_prices.items()},
        "gpus": gpu.gpus,
    }


def _offer(priced: PricedOffer) -> dict[str, Any]:
    offer = priced.offer
    return {
        "id": offer.pk,
        "provider": offer.provider.key,
        "gpu": offer.gpu.key if offer.gpu else "",
        "gpu_name": offer.gpu.name if offer.gpu else "",
        "gpu_count": offer.gpu_count,
        "region": offer.region,
        "price_per_gpu_hour": plain(priced.price_per_gpu_hour),
        "price_per_hour": plain(priced.price_per_hour),
        "last_seen": offer.last_seen,
    }
