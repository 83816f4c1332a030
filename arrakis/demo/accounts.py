"""The demo's two sign-ins and the customer's token: made once per clone, kept in a private file."""

from __future__ import annotations

import json
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db import transaction

from arrakis.accounts.models import ApiToken, Membership, User, Workspace
from arrakis.accounts.services import create_customer, issue_api_token
from arrakis.embedded.files import read_json, write_private
from deploy.ledger import services as ledger

CUSTOMER, STAFF = "customer@example.com", "staff@example.com"
CREDIT_USD = Decimal("25")


def demo_accounts(path: Path) -> dict[str, Any]:
    """{"customer": {email, password, api_token}, "staff": {email, password}}, in the database as in the file."""
    kept = read_json(path)
    if kept and _are_known(kept):
        return kept
    made = _make()
    write_private(path, json.dumps(made, indent=1))
    return made


def _are_known(kept: dict[str, Any]) -> bool:
    """Whether what the file says still opens the door: not after RESET=1, nor after somebody changed a password."""
    users = {user.email: user for user in User.objects.filter(email__in=[CUSTOMER, STAFF])}
    both = all(
        (user := users.get(email)) is not None and user.check_password(kept[kind]["password"])
        for kind, email in (("customer", CUSTOMER), ("staff", STAFF))
    )
    token = kept["customer"]["api_token"]
    return both and ApiToken.objects.filter(prefix=token[:10], user=users[CUSTOMER], revoked_at=None).exists()


@transaction.atomic
def _make() -> dict[str, Any]:
    passwords = {kind: secrets.token_urlsafe(12) for kind in ("customer", "staff")}
    customer, workspace = _customer(passwords["customer"])
    staff = User.objects.filter(email=STAFF).first() or User(email=STAFF, name="Demo staff")
    staff.is_staff = staff.is_superuser = True
    staff.set_password(passwords["staff"])
    staff.save()
    ApiToken.objects.filter(user=customer, name="Demo").delete()
    _token, text = issue_api_token(workspace=workspace, user=customer, name="Demo")
    return {
        "customer": {"email": CUSTOMER, "password": passwords["customer"], "api_token": text},
        "staff": {"email": STAFF, "password": passwords["staff"]},
    }


def _customer(password: str) -> tuple[User, Workspace]:
    existing = User.objects.filter(email=CUSTOMER).first()
    if existing is not None:
        existing.set_password(password)
        existing.save(update_fields=["password"])
        return existing, Membership.objects.select_related("workspace").filter(user=existing).earliest("pk").workspace
    user, workspace = create_customer(email=CUSTOMER, password=password, name="Demo customer")
    ledger.credit(
        owner=workspace.pk,
        amount=CREDIT_USD,
        kind="granted",
        entry_id=f"demo-credit:{workspace.pk}",
        reason="Credit of the demo",
        author=None,
    )
    return user, workspace
