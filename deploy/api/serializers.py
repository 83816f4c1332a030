"""What the API takes and answers. Money is a string of US dollars, times are ISO 8601 in UTC."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from arrakis.accounts.models import SshKey
from arrakis.localize import plain
from deploy import reasons
from deploy.gateway import keys
from deploy.gateway.models import EndpointKey
from deploy.ledger.models import Entry
from deploy.models import Deployment, Event, Quote


@extend_schema_field(OpenApiTypes.STR)
class Money(serializers.Field[Decimal, Decimal, str, Any]):
    """US dollars as text: `0.12`, `0.000033`; at least cents, never an exponent."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: Decimal) -> str:
        return plain(value)


class QuoteRequest(serializers.Serializer[Any]):
    model = serializers.CharField(max_length=500, help_text=_("Repository id, or its address on the hub."))
    engine = serializers.CharField(max_length=20, help_text=_("llamacpp, vllm or sglang."))
    gpu = serializers.CharField(max_length=60, help_text=_("Key or name of a GPU, as /api/v1/gpus lists them."))
    count = serializers.IntegerField(min_value=1, max_value=64, default=1)
    context = serializers.IntegerField(  # type: ignore[assignment]
        min_value=1, max_value=100_000_000, required=False, allow_null=True
    )


class QuoteAnswer(serializers.ModelSerializer[Quote]):
    id = serializers.UUIDField(read_only=True)
    model = serializers.CharField(source="repo_id", read_only=True)
    gpu = serializers.SerializerMethodField()
    count = serializers.SerializerMethodField()
    provider = serializers.SerializerMethodField()
    region = serializers.SerializerMethodField()
    context = serializers.SerializerMethodField()  # type: ignore[assignment]
    price_per_hour = Money()
    hold = Money()

    class Meta:
        model = Quote
        fields = [
            "id",
            "model",
            "engine",
            "gpu",
            "count",
            "provider",
            "region",
            "context",
            "price_per_hour",
            "hold",
            "estimated_ready_seconds",
            "expires_at",
        ]

    def get_gpu(self, quote: Quote) -> str:
        return str(quote.offer_facts.get("gpu", ""))

    def get_count(self, quote: Quote) -> int:
        return int(quote.offer_facts.get("gpu_count", 1))

    def get_provider(self, quote: Quote) -> str:
        return str(quote.offer_facts.get("provider", ""))

    def get_region(self, quote: Quote) -> str:
        return str(quote.offer_facts.get("region", ""))

    def get_context(self, quote: Quote) -> int | None:
        context = quote.plan.get("context")
        return None if context is None else int(context)


class DeploymentRequest(serializers.Serializer[Any]):
    quote = serializers.UUIDField(help_text=_("Id of a quote that has not expired. The same quote again is the same."))
    name = serializers.CharField(max_length=80, required=False, allow_blank=True, default="")
    ssh_keys = serializers.ListField(
        child=serializers.CharField(max_length=8192),
        max_length=20,
        required=False,
        default=None,
        allow_null=True,
        help_text=_("Public keys, or ids or names of keys you keep here; left out: all that you keep."),
    )
    hf_token = serializers.CharField(max_length=200, required=False, allow_blank=True, default="", write_only=True)
    args = serializers.ListField(
        child=serializers.CharField(max_length=4096), max_length=100, required=False, default=list
    )
    let_in_early = serializers.BooleanField(
        required=False, default=False, help_text=_("Charge from the moment the machine can be reached by SSH.")
    )


class SshSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    port = serializers.IntegerField()
    user = serializers.CharField()
    command = serializers.CharField()
    host_key = serializers.CharField()


class StageSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    status = serializers.CharField()
    elapsed_seconds = serializers.IntegerField(allow_null=True)
    expected_seconds = serializers.IntegerField(allow_null=True)
    bytes_done = serializers.IntegerField(allow_null=True)
    bytes_total = serializers.IntegerField(allow_null=True)


class EventSerializer(serializers.Serializer[Event]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    code = serializers.CharField()
    message = serializers.SerializerMethodField(help_text=_("In the language of Accept-Language."))
    params = serializers.DictField()
    fault = serializers.CharField()

    def get_message(self, event: Event) -> str:
        return str(reasons.sentence(event.code, event.params))


class KeyAnswer(serializers.ModelSerializer[EndpointKey]):
    hint = serializers.SerializerMethodField()
    deployments = serializers.SerializerMethodField(
        help_text=_("What it opens; empty: every deployment of the workspace.")
    )

    class Meta:
        model = EndpointKey
        fields = ["id", "name", "hint", "deployments", "enabled", "created_at", "expires_at", "revoked_at"]

    def get_hint(self, key: EndpointKey) -> str:
        return keys.hint(key)

    def get_deployments(self, key: EndpointKey) -> list[str]:
        return [str(grant.deployment_id) for grant in key.grants.all() if grant.deployment_id]


class KeyRequest(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=120)


class NewKeyAnswer(KeyAnswer):
    key = serializers.CharField(read_only=True, help_text=_("Shown this once."))

    class Meta(KeyAnswer.Meta):
        fields = [*KeyAnswer.Meta.fields, "key"]


class BalanceAnswer(serializers.Serializer[Any]):
    balance = Money(help_text=_("Everything that is left: available, held and bought; it falls by the second."))
    available = Money(help_text=_("What can be spent now."))
    held = Money(help_text=_("Set aside for what is starting or running; the rest returns on stop."))
    bought = Money(help_text=_("Time bought ahead and not used yet; it returns on stop."))
    granted = Money()
    paid = Money()
    currency = serializers.CharField(default="USD", read_only=True)


class EntryAnswer(serializers.ModelSerializer[Entry]):
    amount = Money(help_text=_("What it added to, or took from, what is available."))
    at = serializers.DateTimeField(source="event_at", read_only=True)

    class Meta:
        model = Entry
        fields = ["id", "code", "amount", "at", "reason", "ref_type", "ref_id"]


class SshKeyRequest(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    public_key = serializers.CharField(max_length=8192)


class SshKeyAnswer(serializers.ModelSerializer[SshKey]):
    class Meta:
        model = SshKey
        fields = ["id", "name", "public_key", "fingerprint", "created_at"]


class LogsAnswer(serializers.Serializer[Any]):
    logs = serializers.CharField(help_text=_("The engine's last lines, as the machine sent them: untrusted text."))


class DeploymentRow(serializers.Serializer[Any]):
    """A deployment in a list; SSH and the timeline are of the one."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.CharField()
    desired = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    reason_code = serializers.CharField(allow_blank=True)
    fault = serializers.CharField(allow_blank=True)
    endpoint = serializers.URLField()
    model = serializers.CharField(help_text=_("The name to send as model; default means the same."))
    engine = serializers.CharField()
    gpu = serializers.CharField()
    count = serializers.IntegerField()
    price_per_hour = Money()
    cost = Money()
    requested_at = serializers.DateTimeField()
    first_served_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class DeploymentAnswer(DeploymentRow):
    ssh = SshSerializer(allow_null=True, help_text=_("Once your keys are let in; null before."))
    timeline = StageSerializer(many=True)


def row(deployment: Deployment, cost: Decimal) -> dict[str, Any]:
    """What DeploymentRow shows, from what a list has at hand."""
    facts = deployment.quote.offer_facts
    said = reasons.sentence(deployment.reason_code, deployment.reason_params) if deployment.reason_code else ""
    kept = ("id", "name", "state", "desired", "reason_code", "fault", "engine", "price_per_hour")
    times = ("requested_at", "first_served_at", "ended_at")
    return {
        **{name: getattr(deployment, name) for name in (*kept, *times)},
        "reason": str(said),
        "endpoint": f"{settings.GATEWAY_URL}/v1",
        "model": deployment.served_name,
        "gpu": str(facts.get("gpu_name", "")),
        "count": int(facts.get("gpu_count", 1)),
        "cost": cost,
    }
