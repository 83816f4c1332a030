"""A shop with one model and one cpu host, and the people of `cast` signed in with money to spend."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest
from django.test import Client

from arrakis.accounts.models import Membership, Role, User
from arrakis.ids import new_id
from catalog.models import FleetHost, Gpu
from deploy.ledger import services as ledger
from deploy.models import Deployment
from sizing.models import HubModel
from tests.conftest import Cast
from tests.deploy.rentals import Customer, a_gpu, a_host, a_model, a_quote, a_request


@dataclass
class Shop:
    cast: Cast
    model: HubModel
    gpu: Gpu
    host: FleetHost

    @property
    def customer(self) -> Customer:
        return Customer(self.cast.workspace, self.cast.owner)

    def deployment(self, **more: object) -> Deployment:
        return a_request(self.customer, a_quote(self.customer, self.gpu), **more)

    def client(self, user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    @property
    def owner(self) -> Client:
        return self.client(self.cast.owner)

    def member_as(self, role: Role) -> Client:
        user = User.objects.create_user(f"{role}-{new_id()}@example.com", "correct horse battery")
        Membership.objects.create(workspace=self.cast.workspace, user=user, role=role)
        return self.client(user)


def pay(workspace_id: object, amount: str) -> None:
    ledger.credit(
        owner=str(workspace_id),
        amount=Decimal(amount),
        kind="granted",
        entry_id=f"credit:{new_id()}",
        reason="for the test",
        author=None,
    )


@pytest.fixture
def shop(cast: Cast) -> Shop:
    pay(cast.workspace.pk, "10")
    model, gpu = a_model(), a_gpu("test-cpu", kind="cpu", memory_gb="1")
    return Shop(cast, model, gpu, a_host(gpu, mode="bare", is_demo=True))
