"""Who may do what: the one place that answers it, for pages, API and admin actions alike (DESIGN 5.10).

Everything a customer sees starts from the `Access` of a request: a workspace, the member's role in it, and what that
role permits. A workspace somebody is not in does not exist for them: `NotFound`, never "forbidden".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, cast
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from arrakis.accounts.models import ApiToken, Membership, Role, User, Workspace
from arrakis.errors import Forbidden, NotFound

SESSION_KEY: Final = "workspace"
READ_ONLY: Final = "read"
"""The scope of an API token that may look and not touch."""


class Permission(Enum):
    READ = "read"
    """see deployments, their logs and events"""
    MONEY = "money"
    """see the balance, entries and what things cost"""
    DEPLOY = "deploy"
    """start, stop, restart; make and revoke endpoint keys"""
    MEMBERS = "members"
    """invite, remove, change roles"""


_LOOKING: Final = frozenset({Permission.READ, Permission.MONEY})
ALLOWED: Final[dict[str, frozenset[Permission]]] = {
    Role.OWNER: frozenset(Permission),
    Role.ADMIN: frozenset(Permission),
    Role.DEVELOPER: _LOOKING | {Permission.DEPLOY},
    Role.BILLING: _LOOKING,
    Role.VIEWER: frozenset({Permission.READ}),
}


@dataclass(frozen=True)
class Access:
    user: User
    workspace: Workspace
    role: str
    read_only: bool = False

    def may(self, permission: Permission) -> bool:
        allowed = ALLOWED.get(self.role, frozenset())
        return permission in (allowed & _LOOKING if self.read_only else allowed)

    def require(self, permission: Permission) -> None:
        """Raises Forbidden: `role_forbids` (params: role, permission)."""
        if not self.may(permission):
            raise Forbidden("role_forbids", role=self.role, permission=permission.value)

    @property
    def may_deploy(self) -> bool:
        return self.may(Permission.DEPLOY)

    @property
    def may_see_money(self) -> bool:
        return self.may(Permission.MONEY)

    @property
    def may_manage_members(self) -> bool:
        return self.may(Permission.MEMBERS)


def access_of(request: HttpRequest) -> Access:
    """The signed-in user's access to the workspace of the session, or of the API token that came with the request.

    Raises NotFound (`workspace_not_found`) for somebody without any workspace, or whose membership ended.
    """
    token = getattr(request, "auth", None)
    if isinstance(token, ApiToken):
        membership = _memberships(token.user).filter(workspace_id=token.workspace_id).first()
        return _access(membership, read_only=READ_ONLY in token.scopes)
    user = cast(User, request.user)
    wanted = request.session.get(SESSION_KEY)
    memberships = list(_memberships(user))
    chosen = next((each for each in memberships if str(each.workspace_id) == wanted), None)
    return _access(chosen or next(iter(memberships), None))


def workspace_of(request: HttpRequest) -> Workspace:
    return access_of(request).workspace


def workspaces_of(user: User) -> list[Workspace]:
    return [membership.workspace for membership in _memberships(user)]


def switch(request: HttpRequest, workspace_id: UUID) -> Workspace:
    """Makes another of the user's workspaces the one of this session. Raises NotFound for one they are not in."""
    membership = _memberships(cast(User, request.user)).filter(workspace_id=workspace_id).first()
    workspace = _access(membership).workspace
    request.session[SESSION_KEY] = str(workspace.pk)
    return workspace


def _memberships(user: User) -> QuerySet[Membership]:
    return Membership.objects.filter(user=user).select_related("workspace", "user").order_by("pk")


def _access(membership: Membership | None, *, read_only: bool = False) -> Access:
    if membership is None:
        raise NotFound("workspace_not_found")
    return Access(membership.user, membership.workspace, membership.role, read_only)
