"""The control API as a program sees it: a token, JSON, nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from arrakis.accounts.models import Membership, Role, User
from arrakis.accounts.services import issue_api_token
from arrakis.ids import new_id
from tests.deploy.console.conftest import Shop, shop

__all__ = ["shop"]


class Caller:
    """`get`, `post`, `delete` of /api/v1/ with a token."""

    def __init__(self, token: str) -> None:
        self.client = Client(headers={"authorization": f"Bearer {token}"} if token else None)

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(f"/api/v1/{path}", **more)

    def post(self, path: str, data: Any = None, **more: Any) -> Any:
        return self.client.post(f"/api/v1/{path}", {} if data is None else data, "application/json", **more)

    def delete(self, path: str, **more: Any) -> Any:
        return self.client.delete(f"/api/v1/{path}", **more)


def caller(workspace: Any, user: User, **more: Any) -> Caller:
    _token, text = issue_api_token(workspace=workspace, user=user, name="test", **more)
    return Caller(text)


@pytest.fixture
def owner(shop: Shop) -> Caller:
    return caller(shop.cast.workspace, shop.cast.owner)


@pytest.fixture
def stranger(shop: Shop) -> Caller:
    return caller(shop.cast.other_workspace, shop.cast.stranger)


def member_as(shop: Shop, role: Role) -> Caller:
    user = User.objects.create_user(f"{role}-{new_id()}@example.com", "correct horse battery")
    Membership.objects.create(workspace=shop.cast.workspace, user=user, role=role)
    return caller(shop.cast.workspace, user)
