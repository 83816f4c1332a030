"""What people do with their accounts: sign up, share a workspace, keep tokens and SSH keys. Each change is audited."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from arrakis.accounts import sshkeys
from arrakis.accounts.access import READ_ONLY, access_of, workspace_of
from arrakis.accounts.models import ApiToken, Membership, Role, SshKey, User, Workspace
from arrakis.audit.services import record
from arrakis.errors import BadRequest, Conflict, Forbidden, NotFound

__all__ = [
    "access_of",
    "add_member",
    "add_ssh_key",
    "change_role",
    "create_customer",
    "delete_ssh_key",
    "get_ssh_key",
    "issue_api_token",
    "remove_member",
    "revoke_api_token",
    "ssh_key_lines",
    "workspace_of",
]

TOKEN_PREFIX: Final = "ark_"  # noqa: S105  (the part that is the same in every token)
MOST_TOKENS: Final = 100
MOST_SSH_KEYS: Final = 100


@transaction.atomic
def create_customer(*, email: str, password: str, name: str = "", locale: str = "") -> tuple[User, Workspace]:
    """A user with a workspace of their own, which holds nothing yet.

    Raises Conflict (`email_taken`), or django's ValidationError for an address or password that will not do.
    """
    if User.objects.filter(email__iexact=email).exists():
        raise Conflict("email_taken")
    validate_password(password, User(email=email, name=name))
    try:
        with transaction.atomic():
            user = User.objects.create_user(email, password, name=name, locale=locale)
    except IntegrityError as error:
        raise Conflict("email_taken") from error
    except ValidationError as error:
        if any(each.code in {"unique", "user_email_unique"} for each in _leaves(error)):
            raise Conflict("email_taken") from error
        raise
    title = name or email.partition("@")[0]
    workspace = Workspace.objects.create(name=title[:120], slug=_free_slug(title))
    Membership.objects.create(workspace=workspace, user=user, role=Role.OWNER)
    record(actor=user, action="account.created", obj=user, workspace=workspace, after={"email": user.email})
    return user, workspace


@transaction.atomic
def issue_api_token(
    *, workspace: Workspace, user: User, name: str = "", read_only: bool = False, expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """A new token and its text, which is shown once and not stored. Raises BadRequest (`too_many`)."""
    if workspace.api_tokens.filter(user=user, revoked_at=None).count() >= MOST_TOKENS:
        raise BadRequest("too_many", most=MOST_TOKENS)
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        workspace=workspace,
        user=user,
        name=name[:120],
        prefix=text[:10],
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        scopes=[READ_ONLY] if read_only else [],
        expires_at=expires_at,
    )
    record(actor=user, action="api_token.issued", obj=token, workspace=workspace, after={"prefix": token.prefix})
    return token, text


@transaction.atomic
def revoke_api_token(*, workspace: Workspace, actor: User, token_id: UUID) -> None:
    """Ends a token of the actor's at once; again does nothing. Raises NotFound (`api_token_not_found`)."""
    token = ApiToken.objects.select_for_update().filter(workspace=workspace, user=actor, pk=token_id).first()
    if token is None:
        raise NotFound("api_token_not_found")
    if token.revoked_at is None:
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        record(actor=actor, action="api_token.revoked", obj=token, workspace=workspace)


@transaction.atomic
def add_ssh_key(*, user: User, name: str, public_key: str) -> SshKey:
    """Keeps a public key. Without a name, the key's comment or fingerprint is its name; the same key again is the same.

    Raises BadRequest (see `sshkeys.parse`; `too_many`).
    """
    parsed = sshkeys.parse(public_key)
    if user.ssh_keys.count() >= MOST_SSH_KEYS:
        raise BadRequest("too_many", most=MOST_SSH_KEYS)
    key, created = SshKey.objects.get_or_create(
        user=user,
        fingerprint=parsed.fingerprint,
        defaults={
            "name": (name.strip() or parsed.comment or parsed.fingerprint)[:120],
            "public_key": parsed.line,
        },
    )
    if created:
        record(actor=user, action="ssh_key.added", obj=key, after={"fingerprint": key.fingerprint})
    return key


def get_ssh_key(*, user: User, key_id: UUID) -> SshKey:
    """Raises NotFound (`ssh_key_not_found`)."""
    key = user.ssh_keys.filter(pk=key_id).first()
    if key is None:
        raise NotFound("ssh_key_not_found")
    return key


def ssh_key_lines(*, user: User, wanted: Sequence[str]) -> list[str]:
    """Public keys as `type base64`, from what a person names: a public key, or the id or name of one they keep.

    Raises BadRequest (see `sshkeys.parse`) and NotFound (`ssh_key_not_found`).
    """
    kept = list(user.ssh_keys.order_by("created_at")) if wanted else []
    lines = []
    for text in map(str.strip, wanted):
        found = next((key for key in kept if text in {str(key.pk), key.name, key.fingerprint}), None)
        if found is None and " " not in text:
            raise NotFound("ssh_key_not_found")
        lines.append(found.public_key if found else sshkeys.parse(text).line)
    return list(dict.fromkeys(lines))


@transaction.atomic
def delete_ssh_key(*, user: User, key_id: UUID) -> None:
    """Forgets a key; machines that already have it keep it until they are released. Raises NotFound."""
    key = user.ssh_keys.select_for_update().filter(pk=key_id).first()
    if key is None:
        raise NotFound("ssh_key_not_found")
    record(actor=user, action="ssh_key.deleted", obj=key, before={"fingerprint": key.fingerprint})
    key.delete()


@transaction.atomic
def add_member(*, workspace: Workspace, actor: User, email: str, role: str) -> Membership:
    """Shares the workspace with somebody who has an account.

    Raises NotFound (`member_unknown`) where nobody has the address, Conflict (`member_already`), and Forbidden
    (`only_owner`) when anyone but an owner makes an owner.
    """
    _check_role(workspace, actor, role)
    user = User.objects.filter(email__iexact=email.strip(), is_active=True).first()
    if user is None:
        raise NotFound("member_unknown")
    membership, created = Membership.objects.get_or_create(workspace=workspace, user=user, defaults={"role": role})
    if not created:
        raise Conflict("member_already")
    record(
        actor=actor,
        action="member.added",
        obj=membership,
        workspace=workspace,
        after={"email": user.email, "role": role},
    )
    return membership


@transaction.atomic
def change_role(*, workspace: Workspace, actor: User, membership_id: int, role: str) -> Membership:
    """Raises NotFound, Forbidden (`only_owner`), Conflict (`last_owner`)."""
    membership = _locked_membership(workspace, membership_id)
    _check_role(workspace, actor, role)
    _check_role(workspace, actor, membership.role)
    before = membership.role
    if role != Role.OWNER:
        _keep_an_owner(workspace, membership)
    if role != before:
        membership.role = role
        membership.save(update_fields=["role"])
        record(
            actor=actor,
            action="member.role_changed",
            obj=membership,
            workspace=workspace,
            before={"role": before},
            after={"email": membership.user.email, "role": role},
        )
    return membership


@transaction.atomic
def remove_member(*, workspace: Workspace, actor: User, membership_id: int) -> None:
    """Ends a membership; tokens of that member stop working at once. Raises NotFound, Forbidden, Conflict."""
    membership = _locked_membership(workspace, membership_id)
    if membership.user_id != actor.pk:
        _check_role(workspace, actor, membership.role)
    _keep_an_owner(workspace, membership)
    workspace.api_tokens.filter(user=membership.user, revoked_at=None).update(revoked_at=timezone.now())
    record(
        actor=actor,
        action="member.removed",
        obj=membership,
        workspace=workspace,
        before={"email": membership.user.email, "role": membership.role},
    )
    membership.delete()


def _locked_membership(workspace: Workspace, membership_id: int) -> Membership:
    # All of them, in order: two owners who leave at the same time must not leave nobody.
    rows = workspace.memberships.select_for_update(of=("self",)).select_related("user").order_by("pk")
    found = next((row for row in rows if row.pk == membership_id), None)
    if found is None:
        raise NotFound("member_not_found")
    return found


def _check_role(workspace: Workspace, actor: User, role: str) -> None:
    if role not in Role.values:
        raise BadRequest("role_unknown", role=role[:20])
    if role == Role.OWNER and not workspace.memberships.filter(user=actor, role=Role.OWNER).exists():
        raise Forbidden("only_owner")


def _keep_an_owner(workspace: Workspace, leaving: Membership) -> None:
    others = workspace.memberships.filter(role=Role.OWNER).exclude(pk=leaving.pk)
    if leaving.role == Role.OWNER and not others.exists():
        raise Conflict("last_owner")


def _leaves(error: ValidationError) -> list[ValidationError]:
    """The single errors inside one that may be per field."""
    if hasattr(error, "error_dict"):
        return [leaf for leaves in error.error_dict.values() for leaf in leaves]
    return list(error.error_list)


def _free_slug(title: str) -> str:
    base = slugify(title)[:50] or "workspace"
    return base if not Workspace.objects.filter(slug=base).exists() else f"{base}-{secrets.token_hex(4)}"
