"""Who uses Arrakis: users, the workspaces that own things, and what lets them in."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from arrakis.ids import new_id


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.full_clean(exclude=["password"])
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = models.EmailField(_("e-mail"), unique=True)
    name = models.CharField(_("name"), max_length=120, blank=True)
    locale = models.CharField(_("language"), max_length=10, blank=True)
    tz = models.CharField(_("time zone"), max_length=64, default="UTC")
    is_staff = models.BooleanField(_("staff"), default=False)
    is_active = models.BooleanField(_("active"), default=True)
    suspended_at = models.DateTimeField(_("suspended at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        verbose_name = _("user")
        verbose_name_plural = _("users")
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_unique")]

    def __str__(self) -> str:
        return self.email


class Workspace(models.Model):
    """Who owns deployments and a balance; every user has one and may share it."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(_("name"), max_length=120)
    slug = models.SlugField(_("slug"), max_length=63, unique=True)
    country = models.CharField(_("country"), max_length=2, blank=True)
    billing = models.JSONField(_("billing"), default=dict, blank=True)
    frozen_reason = models.CharField(_("frozen because"), max_length=200, blank=True)
    max_usd_per_hour = models.DecimalField(_("most USD per hour"), max_digits=12, decimal_places=6, default=100)
    max_machines = models.PositiveIntegerField(_("most machines"), default=10)
    display_currency = models.CharField(_("display currency"), max_length=3, default="USD")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    members = models.ManyToManyField(User, through="Membership", related_name="workspaces")

    class Meta:
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    OWNER = "owner", _("owner")
    ADMIN = "admin", _("administrator")
    DEVELOPER = "developer", _("developer")
    BILLING = "billing", _("billing")
    VIEWER = "viewer", _("viewer")


class Membership(models.Model):
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("workspace")
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships", verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=10, choices=Role.choices, default=Role.DEVELOPER)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [models.UniqueConstraint(fields=["workspace", "user"], name="membership_unique")]

    def __str__(self) -> str:
        return self.role


class SshKey(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys", verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=120)
    public_key = models.TextField(_("public key"))
    fingerprint = models.CharField(_("fingerprint"), max_length=64)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("SSH key")
        verbose_name_plural = _("SSH keys")
        constraints = [models.UniqueConstraint(fields=["user", "fingerprint"], name="sshkey_unique")]

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A key to the control API; only its SHA-256 is stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="api_tokens", verbose_name=_("workspace")
    )
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens", verbose_name=_("user"))
    name = models.CharField(_("name"), max_length=120, blank=True)
    prefix = models.CharField(_("begins with"), max_length=20)
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=40), default=list, blank=True, verbose_name=_("scopes"))
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")

    def __str__(self) -> str:
        return self.prefix


class Secret(models.Model):
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="secrets", verbose_name=_("workspace")
    )
    kind = models.CharField(_("kind"), max_length=20)
    ciphertext = models.TextField()
    key_id = models.CharField(max_length=16, blank=True)
    hint = models.CharField(_("ends with"), max_length=8, blank=True)

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        constraints = [models.UniqueConstraint(fields=["workspace", "kind"], name="secret_unique")]

    def __str__(self) -> str:
        return self.kind
