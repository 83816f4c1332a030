"""`balance`, `entries`, `ssh-keys`: what belongs to the caller rather than to one deployment."""

from __future__ import annotations

from uuid import UUID

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from arrakis.accounts import services as accounts
from arrakis.accounts.access import Permission
from arrakis.api import WorkspaceView, documented
from deploy import metering
from deploy.api.serializers import BalanceAnswer, EntryAnswer, SshKeyAnswer, SshKeyRequest
from deploy.ledger import services as ledger


class BalanceView(WorkspaceView):
    permissions = {"GET": Permission.MONEY}

    @documented(BalanceAnswer, operation_id="balance")
    def get(self, request: Request) -> Response:
        return Response(BalanceAnswer(metering.funds(self.access.workspace)).data)


class EntriesView(WorkspaceView):
    permissions = {"GET": Permission.MONEY}

    @documented(EntryAnswer, many=True, operation_id="entries")
    def get(self, request: Request) -> Response:
        """Newest first, in pages of `limit` from `offset`."""
        return self.page(ledger.entries(self.access.workspace.pk), EntryAnswer)


class SshKeysView(WorkspaceView):
    @documented(SshKeyAnswer, many=True, operation_id="ssh_keys")
    def get(self, request: Request) -> Response:
        return self.page(self.access.user.ssh_keys.order_by("-created_at"), SshKeyAnswer)

    @documented(
        SshKeyAnswer, request=SshKeyRequest, status=201, errors=(400, 401, 403, 415, 429), operation_id="add_ssh_key"
    )
    def post(self, request: Request) -> Response:
        """Adding a key that is there already answers with it."""
        given = SshKeyRequest(data=request.data)
        given.is_valid(raise_exception=True)
        self.refuse_read_only()
        key = accounts.add_ssh_key(user=self.access.user, **given.validated_data)
        return Response(SshKeyAnswer(key).data, status=status.HTTP_201_CREATED)


class SshKeyView(WorkspaceView):
    @documented(SshKeyAnswer, operation_id="ssh_key")
    def get(self, request: Request, key_id: UUID) -> Response:
        return Response(SshKeyAnswer(accounts.get_ssh_key(user=self.access.user, key_id=key_id)).data)

    @documented(None, status=204, operation_id="delete_ssh_key")
    def delete(self, request: Request, key_id: UUID) -> Response:
        self.refuse_read_only()
        accounts.delete_ssh_key(user=self.access.user, key_id=key_id)
        return Response(status=status.HTTP_204_NO_CONTENT)
