"""`quotes` and `deployments`: from a price to a running model and its end."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from arrakis.accounts.access import Permission
from arrakis.accounts.services import ssh_key_lines
from arrakis.api import Pages, WorkspaceView, documented
from arrakis.errors import Conflict
from catalog.models import Gpu
from deploy import metering, presenter, services
from deploy.api.serializers import (
    DeploymentAnswer,
    DeploymentRequest,
    DeploymentRow,
    EventSerializer,
    KeyAnswer,
    KeyRequest,
    LogsAnswer,
    NewKeyAnswer,
    QuoteAnswer,
    QuoteRequest,
    row,
)
from deploy.gateway import keys
from deploy.models import Deployment


def gpu_key(text: str) -> str:
    """A GPU's key, from its key or its name; what is neither stays, for the quote to refuse it in words."""
    named = Gpu.objects.filter(name__iexact=text.strip()).values_list("key", flat=True).first()
    return named or text.strip().lower()


class QuotesView(WorkspaceView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(
        QuoteAnswer,
        request=QuoteRequest,
        status=201,
        errors=(400, 401, 403, 404, 409, 415, 429),
        operation_id="quote",
    )
    def post(self, request: Request) -> Response:
        """What a model on an engine and a GPU costs now. Free, and binding for some minutes."""
        given = QuoteRequest(data=request.data)
        given.is_valid(raise_exception=True)
        asked = {"context": None, **given.validated_data}
        asked["gpu"] = gpu_key(asked["gpu"])
        quote = services.quote(workspace=self.access.workspace, user=self.access.user, **asked)
        return Response(QuoteAnswer(quote).data, status=status.HTTP_201_CREATED)


class DeploymentsView(WorkspaceView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(DeploymentRow, many=True, operation_id="deployments")
    def get(self, request: Request) -> Response:
        """Newest first, in pages of `limit` from `offset`."""
        pages = Pages()
        rows = pages.paginate_queryset(services.deployments_of(self.access.workspace), request, view=self) or []
        costs = metering.costs_so_far(rows)
        shown = [row(each, costs.get(each.pk, Decimal(0))) for each in rows]
        return pages.get_paginated_response(DeploymentRow(shown, many=True).data)

    @documented(
        DeploymentAnswer,
        request=DeploymentRequest,
        status=201,
        errors=(400, 401, 402, 403, 404, 409, 415, 429),
        operation_id="deploy",
    )
    def post(self, request: Request) -> Response:
        """Accepts a quote. The same quote again answers with the same deployment, so asking twice is safe.

        409 `price_changed` carries both prices; 402 `insufficient_balance` what is needed and what there is.
        """
        given = DeploymentRequest(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        keys_named = asked["ssh_keys"]
        deployment = services.request(
            workspace=self.access.workspace,
            user=self.access.user,
            quote_id=asked["quote"],
            name=asked["name"],
            ssh_keys=ssh_key_lines(user=self.access.user, wanted=keys_named) if keys_named is not None else None,
            hf_token=asked["hf_token"],
            args=asked["args"],
            let_in_early=asked["let_in_early"],
        )
        return Response(DeploymentAnswer(presenter.describe(deployment)).data, status=status.HTTP_201_CREATED)


class DeploymentView(WorkspaceView):
    """Base of everything under one deployment: another workspace's is 404."""

    def find(self, deployment_id: UUID) -> Deployment:
        return services.get_deployment(self.access.workspace, deployment_id)


class DetailView(DeploymentView):
    @documented(DeploymentAnswer, operation_id="deployment")
    def get(self, request: Request, deployment_id: UUID) -> Response:
        return Response(DeploymentAnswer(presenter.describe(self.find(deployment_id))).data)


class EventsView(DeploymentView):
    @documented(EventSerializer, many=True, operation_id="deployment_events")
    def get(self, request: Request, deployment_id: UUID) -> Response:
        """Oldest first; `message` in the language of Accept-Language."""
        return self.page(self.find(deployment_id).events.order_by("id"), EventSerializer)


class LogsView(DeploymentView):
    @documented(LogsAnswer, errors=(401, 403, 404, 429, 503), operation_id="deployment_logs")
    def get(self, request: Request, deployment_id: UUID) -> Response:
        return Response({"logs": services.logs(deployment=self.find(deployment_id))})


class StopView(DeploymentView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(DeploymentAnswer, request=None, operation_id="stop_deployment")
    def post(self, request: Request, deployment_id: UUID) -> Response:
        """Again changes nothing. Unused seconds return; everything on the machine is lost."""
        deployment = services.stop(deployment=self.find(deployment_id), actor=self.access.user)
        return Response(DeploymentAnswer(presenter.describe(deployment)).data)


class RestartView(DeploymentView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(DeploymentAnswer, request=None, errors=(401, 403, 404, 409, 429), operation_id="restart_deployment")
    def post(self, request: Request, deployment_id: UUID) -> Response:
        """Starts the engine anew on the same machine."""
        deployment = services.restart(deployment=self.find(deployment_id), actor=self.access.user)
        return Response(DeploymentAnswer(presenter.describe(deployment)).data)


class LetInView(DeploymentView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(DeploymentAnswer, request=None, errors=(401, 402, 403, 404, 409, 429), operation_id="let_in_early")
    def post(self, request: Request, deployment_id: UUID) -> Response:
        """Charge from now on, and open SSH although the model is not ready."""
        deployment = services.let_in(deployment=self.find(deployment_id), actor=self.access.user)
        return Response(DeploymentAnswer(presenter.describe(deployment)).data)


class KeysView(DeploymentView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(KeyAnswer, many=True, operation_id="deployment_keys")
    def get(self, request: Request, deployment_id: UUID) -> Response:
        """Keys that open it, those of the whole workspace included."""
        return self.page(keys.keys_of(self.find(deployment_id)), KeyAnswer)

    @documented(
        NewKeyAnswer,
        request=KeyRequest,
        status=201,
        errors=(400, 401, 403, 404, 415, 429),
        operation_id="create_deployment_key",
    )
    def post(self, request: Request, deployment_id: UUID) -> Response:
        """A new key of this deployment; `key` is shown this once."""
        deployment = self.find(deployment_id)
        given = KeyRequest(data=request.data)
        given.is_valid(raise_exception=True)
        key, plaintext = keys.issue(
            workspace=self.access.workspace, name=given.validated_data["name"], deployment=deployment
        )
        return Response({**KeyAnswer(key).data, "key": plaintext}, status=status.HTTP_201_CREATED)


class KeyView(DeploymentView):
    permissions = {"DELETE": Permission.DEPLOY}

    @documented(None, status=204, operation_id="revoke_deployment_key")
    def delete(self, request: Request, deployment_id: UUID, key_id: UUID) -> Response:
        """Closes the key at once and for good. A key of the whole workspace is revoked at `keys/{id}`, not here."""
        key = keys.get_key(self.access.workspace, str(key_id))
        if not key.grants.filter(deployment=self.find(deployment_id)).exists():
            raise Conflict("key_of_workspace")
        keys.revoke(key=key)
        return Response(status=status.HTTP_204_NO_CONTENT)


class WorkspaceKeysView(WorkspaceView):
    permissions = {"POST": Permission.DEPLOY}

    @documented(KeyAnswer, many=True, operation_id="keys")
    def get(self, request: Request) -> Response:
        return self.page(keys.keys_of(self.access.workspace), KeyAnswer)

    @documented(
        NewKeyAnswer, request=KeyRequest, status=201, errors=(400, 401, 403, 415, 429), operation_id="create_key"
    )
    def post(self, request: Request) -> Response:
        """A new key that opens every deployment of the workspace; `key` is shown this once."""
        given = KeyRequest(data=request.data)
        given.is_valid(raise_exception=True)
        key, plaintext = keys.issue(workspace=self.access.workspace, name=given.validated_data["name"])
        return Response({**KeyAnswer(key).data, "key": plaintext}, status=status.HTTP_201_CREATED)


class WorkspaceKeyView(WorkspaceView):
    permissions = {"DELETE": Permission.DEPLOY}

    @documented(None, status=204, operation_id="revoke_key")
    def delete(self, request: Request, key_id: UUID) -> Response:
        keys.revoke(key=keys.get_key(self.access.workspace, str(key_id)))
        return Response(status=status.HTTP_204_NO_CONTENT)
