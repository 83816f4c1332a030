from __future__ import annotations

import re
from decimal import Decimal
from html import unescape

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from arrakis.accounts.models import Membership, Workspace
from arrakis.audit.models import Record
from deploy.ledger import services
from deploy.ledger.models import Account, Entry
from tests.deploy.shop import a_user, a_workspace

pytestmark = pytest.mark.django_db

CREDIT = "/admin/ledger/account/credit/"


@pytest.fixture
def workspace() -> Workspace:
    return a_workspace()


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(a_user(is_staff=True))
    return client


def values(client: Client, workspace: Workspace, /, **changed: str) -> dict[str, str]:
    """What the form sends, with the entry id that it was opened with."""
    page = client.get(CREDIT, {"workspace": str(workspace.pk)}).content.decode()
    assert str(workspace.pk) in page
    entry_id = re.search(r'name="entry_id" value="([^"]+)"', page)
    assert entry_id is not None
    filled = {"workspace": workspace.slug, "amount": "12.5", "kind": "granted", "reason": "Welcome"}
    return {"entry_id": entry_id[1], **filled, **changed}


def test_staff_give_credit_with_a_reason_and_the_audit_says_so(staff: Client, workspace: Workspace) -> None:
    answer = staff.post(CREDIT, values(staff, workspace), follow=True)
    assert f"{workspace.name} was credited $12.50." in unescape(answer.content.decode())
    assert services.balance(workspace.pk).granted == Decimal("12.5")
    entry = Entry.objects.get()
    assert (entry.reason, entry.code) == ("Welcome", "credit")
    record = Record.objects.get(action="ledger.credit")
    assert (record.object_id, record.workspace, record.actor) == (entry.pk, workspace, entry.author)


def test_a_form_sent_twice_gives_the_money_once(staff: Client, workspace: Workspace) -> None:
    sent = values(staff, workspace)
    assert [staff.post(CREDIT, sent).status_code for _time in range(2)] == [302, 302]
    again = staff.post(CREDIT, {**sent, "amount": "13"})
    assert "sent before with other values" in again.content.decode()
    assert services.balance(workspace.pk).available == Decimal("12.5")


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": ""},
        {"reason": "   "},
        {"amount": "0"},
        {"amount": "-5"},
        {"amount": "0.0000001"},
        {"amount": "NaN"},
        {"kind": "held"},
        {"workspace": "nobody"},
        {"entry_id": "hold:1"},
        {"kind": "paid", "expires_at_0": "2027-01-01", "expires_at_1": "00:00"},
    ],
)
def test_what_is_wrong_gives_nothing(staff: Client, workspace: Workspace, wrong: dict[str, str]) -> None:
    assert staff.post(CREDIT, values(staff, workspace, **wrong)).status_code == 200
    assert not Entry.objects.exists()


def test_a_workspace_is_found_by_id_short_name_or_a_members_address(staff: Client, workspace: Workspace) -> None:
    member = a_user()
    Membership.objects.create(workspace=workspace, user=member)
    for n, name in enumerate([str(workspace.pk), workspace.slug.upper(), member.email.upper()], start=1):
        assert staff.post(CREDIT, values(staff, workspace, workspace=name)).status_code == 302
        assert services.balance(workspace.pk).available == n * Decimal("12.5")
    Membership.objects.create(workspace=a_workspace(), user=member)
    answer = staff.post(CREDIT, values(staff, workspace, workspace=member.email))
    assert "several workspaces" in answer.content.decode()


def test_only_staff_who_may_add_entries_give_credit(client: Client, workspace: Workspace) -> None:
    looker = a_user()
    looker.is_staff = True
    looker.save(update_fields=["is_staff"])
    looker.user_permissions.add(*Permission.objects.filter(codename__in=["view_account", "view_entry"]))
    client.force_login(looker)
    assert client.get(CREDIT).status_code == 403
    assert client.post(CREDIT, {}).status_code == 403
    page = client.get(reverse("admin:ledger_account_changelist"))
    assert page.status_code == 200
    assert "/credit/" not in page.content.decode()
    client.force_login(a_user())
    assert client.post(CREDIT, {}).status_code == 302


def test_accounts_and_entries_are_to_read_only(staff: Client) -> None:
    workspace = a_workspace(paid="3.25")
    account, entry = Account.objects.get(owner=str(workspace.pk)), Entry.objects.get()
    for name, row in (("account", account), ("entry", entry)):
        assert staff.get(reverse(f"admin:ledger_{name}_add")).status_code == 403
        assert staff.post(reverse(f"admin:ledger_{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        assert staff.post(reverse(f"admin:ledger_{name}_change", args=[row.pk]), {"owner": "x"}).status_code == 403
    page = staff.get(reverse("admin:ledger_entry_change", args=[entry.pk])).content.decode()
    assert "$3.25" in page
    assert str(workspace.pk) in page


def test_a_system_account_shows_its_sum(staff: Client) -> None:
    a_workspace(paid="3.25")
    account = Account.objects.get(kind="receivable")
    assert "-$3.25" in staff.get(reverse("admin:ledger_account_change", args=[account.pk])).content.decode()
    assert staff.get(reverse("admin:ledger_account_changelist"), {"kind": "receivable"}).status_code == 200


def test_entries_and_accounts_are_found_by_workspace_and_members(staff: Client) -> None:
    mine, _other = a_workspace(paid="1"), a_workspace(paid="2")
    member = a_user()
    Membership.objects.create(workspace=mine, user=member)
    for name in ("account", "entry"):
        for text in (mine.slug, member.email, str(mine.pk)):
            page = staff.get(reverse(f"admin:ledger_{name}_changelist"), {"q": text})
            assert [row.owner for row in page.context["cl"].result_list] == [str(mine.pk)]
