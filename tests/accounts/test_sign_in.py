"""Signing in, out and up: the same answer for unknown and wrong, and a limit on tries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arrakis.accounts import backends
from arrakis.accounts.models import User, Workspace
from tests.conftest import Cast

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def sign_in(client: Client, email: str = "owner@example.com", password: str = PASSWORD, **more: Any) -> Any:
    return client.post(reverse("console:sign-in"), {"email": email, "password": password, **more})


def errors(answer: Any) -> list[str]:
    return [str(error) for error in answer.context["form"].non_field_errors()]


def test_by_address_of_any_case_and_password(cast: Cast) -> None:
    client = Client()
    assert sign_in(client, "OWNER@example.com").headers["Location"] == reverse("console:models")
    assert client.get(reverse("console:models")).status_code == 200


def test_unknown_and_wrong_are_told_alike(cast: Cast) -> None:
    wrong, unknown = sign_in(Client(), password="wrong"), sign_in(Client(), "nobody@example.com")
    assert errors(wrong) == errors(unknown)
    assert wrong.status_code == unknown.status_code == 422


def test_a_suspended_user_is_out_at_once_and_stays_out(cast: Cast) -> None:
    client = Client()
    sign_in(client)
    User.objects.filter(pk=cast.owner.pk).update(suspended_at=timezone.now())
    assert client.get(reverse("console:models")).status_code == 302
    assert errors(sign_in(Client())) == errors(sign_in(Client(), password="wrong"))


def test_too_many_wrong_tries_close_the_account_for_that_address_alone(cast: Cast) -> None:
    client = Client()
    for _ in range(backends.MOST_FOR_PAIR):
        sign_in(client, password="wrong")
    assert "15 minutes" in errors(sign_in(client))[0]
    assert sign_in(client, "member@example.com").status_code == 302
    assert sign_in(Client(REMOTE_ADDR="10.0.0.9")).status_code == 302


def test_one_address_may_not_try_many_accounts(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "MOST_FOR_ADDRESS", 3)
    for n in range(3):
        sign_in(Client(), f"nobody{n}@example.com")
    assert "15 minutes" in errors(sign_in(Client()))[0]


def test_the_staffs_form_has_the_same_limit(cast: Cast) -> None:
    User.objects.create_superuser("staff@example.com", PASSWORD)
    for _ in range(backends.MOST_FOR_PAIR):
        Client().post("/admin/login/", {"username": "staff@example.com", "password": "wrong"})
    Client().post("/admin/login/", {"username": "staff@example.com", "password": PASSWORD})
    assert "15 minutes" in errors(sign_in(Client(), "staff@example.com"))[0]


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_the_way_back_stays_here(cast: Cast, target: str) -> None:
    assert sign_in(Client(), next=target).headers["Location"] == reverse("console:models")


def test_the_way_back_is_taken(cast: Cast) -> None:
    assert sign_in(Client(), next="/en/console/keys/").headers["Location"] == "/en/console/keys/"


def test_to_the_console_in_ones_own_language(cast: Cast) -> None:
    User.objects.filter(pk=cast.owner.pk).update(locale="fr")
    assert sign_in(Client()).headers["Location"] == "/fr/console/models/"


def test_signing_out_takes_a_post(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.owner)
    assert client.get(reverse("console:sign-out")).status_code == 405
    assert client.post(reverse("console:sign-out")).status_code == 302
    assert client.get(reverse("console:models")).status_code == 302


def test_signing_up_opens_an_empty_workspace() -> None:
    client = Client()
    answer = client.post(reverse("console:sign-up"), {"email": "new@example.com", "password": PASSWORD})
    assert answer.status_code == 302
    assert Workspace.objects.get().name == "new"
    assert "$0.00" in client.get(reverse("console:billing")).content.decode()


@pytest.mark.parametrize(
    ("email", "password", "field"),
    [("owner@example.com", PASSWORD, "email"), ("x@example.com", "short", "password"), ("nonsense", PASSWORD, "email")],
)
def test_what_will_not_do_is_said_at_its_field(cast: Cast, email: str, password: str, field: str) -> None:
    answer = Client().post(reverse("console:sign-up"), {"email": email, "password": password})
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, [field])
    assert User.objects.count() == 3


def test_signing_up_can_be_closed(settings: Any) -> None:
    settings.SIGN_UP_OPEN = False
    assert Client().get(reverse("console:sign-up")).status_code == 404
    assert "sign-up" not in Client().get(reverse("console:sign-in")).content.decode()


def test_the_corner_knows_who_asks_and_is_never_stored(cast: Cast) -> None:
    nobody = Client().get(reverse("console:corner"))
    assert "Sign in" in nobody.content.decode()
    client = Client()
    client.force_login(cast.owner)
    answer = client.get(reverse("console:corner"))
    assert "$0.00" in answer.content.decode()
    assert answer.headers["Cache-Control"] == nobody.headers["Cache-Control"] == "private, no-store"


def test_a_changed_password_ends_other_sessions(cast: Cast) -> None:
    here, elsewhere = Client(), Client()
    for client in (here, elsewhere):
        client.force_login(cast.owner)
    new = {"old_password": PASSWORD, "new_password1": "spice must flow", "new_password2": "spice must flow"}
    assert here.post(reverse("console:password"), new).status_code == 302
    assert here.get(reverse("console:models")).status_code == 200
    assert elsewhere.get(reverse("console:models")).status_code == 302


def test_moving_to_another_workspace_takes_membership(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.owner)
    move = reverse("console:switch-workspace")
    assert client.post(move, {"workspace": str(cast.other_workspace.pk)}).status_code == 404
    cast.other_workspace.memberships.create(user=cast.owner, role="viewer")
    assert client.post(move, {"workspace": str(cast.other_workspace.pk)}).status_code == 302
    assert "Elsewhere" in client.get(reverse("console:members")).content.decode()
    cast.other_workspace.memberships.filter(user=cast.owner).delete()
    assert "Lab" in client.get(reverse("console:members")).content.decode()
