"""Accounts, members, tokens and SSH keys: what is made, what is refused, what is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncssh
import pytest
from django.core.exceptions import ValidationError

from arrakis.accounts import services
from arrakis.accounts.models import ApiToken, Membership, Role, User, Workspace
from arrakis.audit.models import Record
from arrakis.errors import ArrakisError, BadRequest, Conflict, Forbidden, NotFound
from tests.conftest import Cast

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


def refused(error: type[ArrakisError], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.code


class TestCustomer:
    def test_a_user_comes_with_a_workspace_of_their_own(self) -> None:
        user, workspace = services.create_customer(email="Paul@Example.com", password=PASSWORD, name="Paul Atreides")
        assert user.check_password(PASSWORD)
        assert (workspace.name, workspace.slug) == ("Paul Atreides", "paul-atreides")
        assert Membership.objects.get().role == Role.OWNER

    def test_an_address_is_taken_whatever_its_case(self) -> None:
        services.create_customer(email="paul@example.com", password=PASSWORD)
        again = lambda: services.create_customer(email="PAUL@example.com", password=PASSWORD)  # noqa: E731
        assert refused(Conflict, again) == "email_taken"
        assert (User.objects.count(), Workspace.objects.count()) == (1, 1)

    def test_two_of_one_name_have_two_workspaces(self) -> None:
        slugs = {
            services.create_customer(email=f"p{n}@example.com", password=PASSWORD, name="Paul")[1].slug for n in (1, 2)
        }
        assert len(slugs) == 2

    @pytest.mark.parametrize("password", ["short", "password123", "1234567890"])
    def test_a_weak_password_makes_nothing(self, password: str) -> None:
        with pytest.raises(ValidationError):
            services.create_customer(email="paul@example.com", password=password)
        assert not User.objects.exists()


class TestToken:
    def test_only_its_hash_is_kept(self, cast: Cast) -> None:
        token, text = services.issue_api_token(workspace=cast.workspace, user=cast.owner, name="ci")
        assert text.startswith("ark_")
        kept = ApiToken.objects.filter(pk=token.pk).values().get()
        assert text not in str(kept)
        assert text.startswith(kept["prefix"])
        assert text not in str(list(Record.objects.values()))

    def test_revoking_twice_keeps_the_first_time(self, cast: Cast) -> None:
        token, _text = services.issue_api_token(workspace=cast.workspace, user=cast.owner)
        services.revoke_api_token(workspace=cast.workspace, actor=cast.owner, token_id=token.pk)
        first = ApiToken.objects.get().revoked_at
        services.revoke_api_token(workspace=cast.workspace, actor=cast.owner, token_id=token.pk)
        assert ApiToken.objects.get().revoked_at == first
        assert Record.objects.filter(action="api_token.revoked").count() == 1

    def test_another_members_token_is_not_theirs_to_revoke(self, cast: Cast) -> None:
        token, _text = services.issue_api_token(workspace=cast.workspace, user=cast.owner)
        revoke = lambda: services.revoke_api_token(  # noqa: E731
            workspace=cast.workspace, actor=cast.member, token_id=token.pk
        )
        assert refused(NotFound, revoke) == "api_token_not_found"


class TestMembers:
    def test_somebody_with_an_account_is_added_once(self, cast: Cast) -> None:
        def add() -> Membership:
            return services.add_member(
                workspace=cast.workspace, actor=cast.owner, email="STRANGER@example.com", role=Role.VIEWER
            )

        assert add().user == cast.stranger
        assert refused(Conflict, add) == "member_already"

    def test_nobody_has_the_address(self, cast: Cast) -> None:
        add = lambda: services.add_member(  # noqa: E731
            workspace=cast.workspace, actor=cast.owner, email="who@example.com", role=Role.VIEWER
        )
        assert refused(NotFound, add) == "member_unknown"

    def test_only_an_owner_makes_or_unmakes_owners(self, cast: Cast) -> None:
        admin = User.objects.create_user("admin@example.com", PASSWORD)
        mine = Membership.objects.create(workspace=cast.workspace, user=admin, role=Role.ADMIN)
        owners = cast.workspace.memberships.get(user=cast.owner)
        for membership, role in ((mine, Role.OWNER), (owners, Role.VIEWER)):
            change = lambda membership=membership, role=role: services.change_role(  # noqa: E731
                workspace=cast.workspace, actor=admin, membership_id=membership.pk, role=role
            )
            assert refused(Forbidden, change) == "only_owner"
        remove = lambda: services.remove_member(  # noqa: E731
            workspace=cast.workspace, actor=admin, membership_id=owners.pk
        )
        assert refused(Forbidden, remove) == "only_owner"

    def test_the_last_owner_stays(self, cast: Cast) -> None:
        mine = cast.workspace.memberships.get(user=cast.owner)
        leave = lambda: services.remove_member(  # noqa: E731
            workspace=cast.workspace, actor=cast.owner, membership_id=mine.pk
        )
        step_down = lambda: services.change_role(  # noqa: E731
            workspace=cast.workspace, actor=cast.owner, membership_id=mine.pk, role=Role.VIEWER
        )
        assert refused(Conflict, leave) == "last_owner"
        assert refused(Conflict, step_down) == "last_owner"

    def test_who_is_removed_has_no_token_left(self, cast: Cast) -> None:
        services.issue_api_token(workspace=cast.workspace, user=cast.member)
        theirs = cast.workspace.memberships.get(user=cast.member)
        services.remove_member(workspace=cast.workspace, actor=cast.owner, membership_id=theirs.pk)
        assert ApiToken.objects.get().revoked_at is not None
        assert Record.objects.filter(action="member.removed", workspace=cast.workspace).count() == 1

    def test_another_workspaces_member_is_not_found(self, cast: Cast) -> None:
        theirs = cast.other_workspace.memberships.get()
        remove = lambda: services.remove_member(  # noqa: E731
            workspace=cast.workspace, actor=cast.owner, membership_id=theirs.pk
        )
        assert refused(NotFound, remove) == "member_not_found"


def public_key(kind: str, **more: Any) -> str:
    return asyncssh.generate_private_key(kind, **more).export_public_key().decode().strip()


class TestSshKey:
    @pytest.mark.parametrize("kind", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521"])
    def test_what_is_kept_is_type_and_key_alone(self, cast: Cast, kind: str) -> None:
        text = public_key(kind)
        key = services.add_ssh_key(user=cast.owner, name="", public_key=f"  {text} me@home\n")
        assert key.public_key == text
        assert key.name == "me@home"
        assert key.fingerprint == asyncssh.import_public_key(text).get_fingerprint("sha256")

    def test_the_same_key_again_is_the_same(self, cast: Cast) -> None:
        text = public_key("ssh-ed25519")
        first, second = (services.add_ssh_key(user=cast.owner, name=n, public_key=text) for n in ("a", "b"))
        assert (first.pk, second.name) == (second.pk, "a")

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", "ssh_key_invalid"),
            ("hello", "ssh_key_invalid"),
            ("ssh-ed25519 AAAA", "ssh_key_invalid"),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA", "ssh_key_private"),
            ("ssh-dss AAAAB3NzaC1kc3M=", "ssh_key_type"),
            ('command="sh" {key}', "ssh_key_type"),
            ("{key}\n{key}", "ssh_key_invalid"),
            ("{key} me\nssh-ed25519 AAAA", "ssh_key_invalid"),
            ("ecdsa-sha2-nistp256 {blob}", "ssh_key_invalid"),
        ],
    )
    def test_what_is_not_one_good_key_is_refused(self, cast: Cast, text: str, code: str) -> None:
        key = public_key("ssh-ed25519")
        text = text.replace("{key}", key).replace("{blob}", key.split()[1])
        add = lambda: services.add_ssh_key(user=cast.owner, name="", public_key=text)  # noqa: E731
        assert refused(BadRequest, add) == code
        assert not cast.owner.ssh_keys.exists()

    def test_a_short_rsa_key_is_refused(self, cast: Cast) -> None:
        text = public_key("ssh-rsa", key_size=1024)
        add = lambda: services.add_ssh_key(user=cast.owner, name="", public_key=text)  # noqa: E731
        assert refused(BadRequest, add) == "ssh_key_weak"
