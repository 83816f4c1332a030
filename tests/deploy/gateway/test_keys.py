"""Keys: made, found, taken back, and never of another workspace."""

from __future__ import annotations

import hashlib

import pytest

from arrakis.errors import BadRequest, NotFound
from arrakis.ids import new_id
from deploy.gateway import keys
from tests.deploy.shop import a_deployment, a_workspace

pytestmark = pytest.mark.django_db


def test_only_a_hash_is_stored() -> None:
    key, plaintext = keys.issue(workspace=a_workspace(), name="  my   laptop ")
    assert plaintext.startswith(f"sk-ark-{key.id_part}") and len(plaintext) == 47
    assert keys.looks_like_key(plaintext) and not keys.looks_like_key(plaintext[:-1])
    key.refresh_from_db()
    assert key.sha256 == hashlib.sha256(plaintext.encode()).hexdigest()
    assert plaintext[15:] not in str(vars(key)) and plaintext[15:] not in keys.hint(key)
    assert key.name == "my laptop"


def test_no_two_are_alike() -> None:
    workspace = a_workspace()
    assert len({keys.issue(workspace=workspace, name="k")[1] for _ in range(50)}) == 50


def test_a_name_already_taken_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = a_workspace()
    first, _plaintext = keys.issue(workspace=workspace, name="first")
    drawn = iter([first.id_part, "x" * 32, "fresh123", "y" * 32])
    monkeypatch.setattr(keys, "_random", lambda _length: next(drawn))
    second, plaintext = keys.issue(workspace=workspace, name="second")
    assert (second.id_part, plaintext) == ("fresh123", "sk-ark-fresh123" + "y" * 32)


def test_of_a_deployment_and_of_a_workspace() -> None:
    workspace = a_workspace()
    one, other = a_deployment(workspace), a_deployment(workspace)
    for_one, _ = keys.issue(workspace=workspace, name="one", deployment=one)
    for_all, _ = keys.issue(workspace=workspace, name="all")
    keys.issue(workspace=a_workspace(), name="stranger")
    assert set(keys.keys_of(workspace)) == {for_one, for_all}
    assert set(keys.keys_of(one)) == {for_one, for_all}
    assert set(keys.keys_of(other)) == {for_all}


def test_another_workspaces_things_are_not_found() -> None:
    mine, theirs = a_workspace(), a_workspace()
    with pytest.raises(NotFound) as caught:
        keys.issue(workspace=mine, name="k", deployment=a_deployment(theirs))
    assert caught.value.code == "deployment_not_found"
    key, _plaintext = keys.issue(workspace=theirs, name="k")
    for wrong in (str(key.pk), str(new_id()), "nonsense", ""):
        with pytest.raises(NotFound):
            keys.get_key(mine, wrong)
    assert keys.get_key(theirs, str(key.pk)) == key


def test_revoked_once_and_for_good() -> None:
    key, _plaintext = keys.issue(workspace=a_workspace(), name="k")
    first = keys.revoke(key=key).revoked_at
    assert first is not None and keys.revoke(key=key).revoked_at == first
    assert keys.set_enabled(key=key, enabled=True).revoked_at == first


@pytest.mark.parametrize("name", ["", "   ", "a\x1b[31mb", "\u202egpj"])
def test_names_that_cannot_be_shown(name: str) -> None:
    with pytest.raises(BadRequest):
        keys.issue(workspace=a_workspace(), name=name)


def test_names_and_networks_have_limits() -> None:
    workspace = a_workspace()
    for name, cidrs in (("x" * 121, []), ("k", ["10.0.0.0/40"]), ("k", ["10.0.0.1"] * 51)):
        with pytest.raises(BadRequest):
            keys.issue(workspace=workspace, name=name, cidrs=cidrs)
    key, _plaintext = keys.issue(workspace=workspace, name="k", cidrs=["10.1.2.3/8", " ::1 "])
    assert key.cidrs == ["10.0.0.0/8", "::1/128"]
