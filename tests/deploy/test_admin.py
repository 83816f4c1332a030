"""The staff's pages: every one opens, shows no secret, obeys permissions, and writes down who changed what."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from arrakis.accounts.models import User
from arrakis.accounts.services import issue_api_token
from arrakis.audit.models import Record
from catalog.models import GpuAlias
from deploy.gateway import keys
from deploy.models import Deployment, Machine
from sizing.models import HubModel
from tests.deploy.console.conftest import Shop, shop
from tests.deploy.rentals import a_gpu, a_host, machine_of, step

__all__ = ["shop"]

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(db: None) -> User:
    return User.objects.create_superuser("staff@example.com", "correct horse battery")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def clerk(*permissions: str) -> User:
    """Staff, not superuser, with some permissions: `deploy.view_deployment`."""
    user = User.objects.create_user("clerk@example.com", "correct horse battery", is_staff=True)
    for permission in permissions:
        app, _dot, code = permission.partition(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=code))
    return user


def every_model() -> list[type[Model]]:
    return sorted(admin.site._registry, key=lambda model: model._meta.label)


def listing(model: type[Model]) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


@pytest.fixture
def busy(shop: Shop) -> Deployment:
    deployment = step(shop.deployment())
    keys.issue(workspace=shop.cast.workspace, name="ours", deployment=deployment)
    issue_api_token(workspace=shop.cast.workspace, user=shop.cast.owner, name="ours")
    return deployment


def test_every_list_and_every_row_opens(staff: User, busy: Deployment) -> None:
    client = signed_in(staff)
    for model in every_model():
        assert client.get(listing(model)).status_code == 200, model
        assert client.get(listing(model), {"q": "a"}).status_code == 200, model
        row = model._default_manager.first()
        if row is not None:
            place = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk])
            assert client.get(place).status_code == 200, model


def test_no_page_shows_a_secret(staff: User, busy: Deployment) -> None:
    machine = machine_of(busy)
    Machine.objects.filter(pk=machine.pk).update(admin_key="ADMINKEY", tunnel_key="TUNNELKEY")
    Deployment.objects.filter(pk=busy.pk).update(hf_token="HUBTOKEN")
    client = signed_in(staff)
    for obj in (machine, busy):
        meta = obj._meta
        page = client.get(reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])).content.decode()
        for secret in ("ADMINKEY", "TUNNELKEY", "HUBTOKEN"):
            assert secret not in page


def test_a_list_costs_as_many_queries_for_two_rows_as_for_one(staff: User, busy: Deployment, shop: Shop) -> None:
    client, models = signed_in(staff), [Deployment, Machine]
    one = [_queries(client, model) for model in models]
    a_host(shop.gpu, name="another", mode="bare", is_demo=True)
    shop.deployment(let_in_early=True)
    assert [_queries(client, model) for model in models] == one


def _queries(client: Client, model: type[Model]) -> int:
    client.get(listing(model))
    with CaptureQueriesContext(connection) as seen:
        client.get(listing(model))
    return len(seen)


class TestStop:
    def act(self, client: Client, deployment: Deployment) -> Any:
        return client.post(listing(Deployment), {"action": "stop", "_selected_action": [str(deployment.pk)]})

    def test_staff_stop_a_deployment_and_it_is_written_down(self, staff: User, busy: Deployment) -> None:
        for _ in range(2):
            self.act(signed_in(staff), busy)
        busy.refresh_from_db()
        assert (busy.state, busy.reason_code) == ("stopping", "stopped_by_staff")
        record = Record.objects.get(action="staff.deployment_stopped")
        assert (record.actor, record.object_id, record.workspace) == (staff, str(busy.pk), busy.workspace)

    def test_who_may_only_look_does_not_stop(self, busy: Deployment) -> None:
        client = signed_in(clerk("deploy.view_deployment"))
        page = client.get(listing(Deployment))
        assert (page.status_code, 'value="stop"' in page.content.decode()) == (200, False)
        self.act(client, busy)
        busy.refresh_from_db()
        assert busy.state != "stopping"

    def test_a_machine_is_released_by_stopping_what_runs_on_it(self, staff: User, busy: Deployment) -> None:
        machine = machine_of(busy)
        signed_in(staff).post(listing(Machine), {"action": "release", "_selected_action": [str(machine.pk)]})
        busy.refresh_from_db()
        assert busy.state == "stopping"


class TestPermissions:
    def test_without_any_nothing_is_there(self, busy: Deployment) -> None:
        client = signed_in(clerk())
        assert client.get("/admin/").status_code == 200
        for model in every_model():
            assert client.get(listing(model)).status_code == 403

    def test_a_customer_is_no_staff(self, shop: Shop) -> None:
        assert signed_in(shop.cast.owner).get("/admin/").status_code == 302

    def test_a_clerk_makes_nobody_staff_and_takes_no_staffs_password(self, staff: User, shop: Shop) -> None:
        client = signed_in(clerk("accounts.view_user", "accounts.change_user"))
        place = reverse("admin:accounts_user_change", args=[shop.cast.owner.pk])
        page = client.get(place).content.decode()
        assert 'name="is_superuser"' not in page
        assert 'name="user_permissions"' not in page
        client.post(place, {"email": "owner@example.com", "tz": "UTC", "is_active": "on", "is_staff": "on"})
        shop.cast.owner.refresh_from_db()
        assert not shop.cast.owner.is_staff
        theirs = reverse("admin:auth_user_password_change", args=[staff.pk])
        new = {"password1": "spice must flow", "password2": "spice must flow", "usable_password": "true"}
        assert client.post(theirs, new).status_code == 403
        staff.refresh_from_db()
        assert staff.check_password("correct horse battery")

    @pytest.mark.parametrize("name", ["deploy_deployment", "deploy_quote", "deploy_machine", "audit_record"])
    def test_what_happened_is_edited_by_nobody(self, staff: User, busy: Deployment, name: str) -> None:
        assert signed_in(staff).get(reverse(f"admin:{name}_add")).status_code == 403


class TestAudit:
    def test_an_edit_is_written_with_before_and_after(self, staff: User, shop: Shop) -> None:
        client = signed_in(staff)
        place = reverse("admin:sizing_hubmodel_change", args=[shop.model.pk])
        form = client.get(place).context["adminform"].form
        values = {name: _text(form[name].value()) for name in form.fields}
        inline = {"old_slugs-TOTAL_FORMS": "0", "old_slugs-INITIAL_FORMS": "0"}
        answer = client.post(place, {**values, **inline, "name": "Renamed"})
        assert answer.status_code == 302, answer.context["errors"]
        record = Record.objects.get(action="staff.changed")
        before, after = changes(record)
        assert (before["name"], after["name"]) == ("acme/Tiny-GGUF", "Renamed")
        assert record.actor == staff
        assert HubModel.objects.get(pk=shop.model.pk).name == "Renamed"

    def test_a_deletion_is_written_with_what_was(self, staff: User) -> None:
        alias = GpuAlias.objects.create(raw_name="H9000", gpu=a_gpu())
        place = reverse("admin:catalog_gpualias_delete", args=[alias.pk])
        signed_in(staff).post(place, {"post": "yes"})
        assert changes(Record.objects.get(action="staff.deleted"))[0]["raw_name"] == "H9000"

    def test_a_member_added_changed_and_removed_on_the_workspaces_page(self, staff: User, shop: Shop) -> None:
        client, workspace = signed_in(staff), shop.cast.workspace
        place = reverse("admin:accounts_workspace_change", args=[workspace.pk])
        form = client.get(place).context["adminform"].form
        values = {name: _text(form[name].value()) for name in form.fields} | {"billing": "{}"}
        rows = list(workspace.memberships.order_by("pk"))
        inline: dict[str, Any] = {"memberships-TOTAL_FORMS": "3", "memberships-INITIAL_FORMS": "2"}
        for n, row in enumerate(rows):
            inline |= {f"memberships-{n}-id": row.pk, f"memberships-{n}-user": row.user_id}
            inline |= {f"memberships-{n}-workspace": workspace.pk, f"memberships-{n}-role": row.role}
        inline |= {"memberships-0-role": "admin", "memberships-1-DELETE": "on"}
        inline |= {"memberships-2-user": staff.pk, "memberships-2-role": "viewer"}
        inline |= {"memberships-2-workspace": workspace.pk}
        answer = client.post(place, {**values, **inline})
        assert answer.status_code == 302, answer.context["errors"]
        found = {row.action: row for row in Record.objects.filter(object_type="accounts.membership")}
        assert (found["staff.changed"].before, found["staff.changed"].after) == ({"role": "owner"}, {"role": "admin"})
        assert changes(found["staff.added"])[1]["user"] == str(staff.pk)
        assert changes(found["staff.deleted"])[0]["user"] == str(shop.cast.member.pk)
        assert found["staff.deleted"].object_id == str(rows[1].pk)

    def test_a_password_set_by_staff(self, staff: User, shop: Shop) -> None:
        place = reverse("admin:auth_user_password_change", args=[shop.cast.owner.pk])
        new = {"password1": "spice must flow", "password2": "spice must flow", "usable_password": "true"}
        assert signed_in(staff).post(place, new).status_code == 302
        shop.cast.owner.refresh_from_db()
        assert shop.cast.owner.check_password("spice must flow")
        record = Record.objects.get(action="staff.password_set")
        assert (record.actor, record.object_id, record.after) == (staff, str(shop.cast.owner.pk), None)

    def test_groups_given_to_staff(self, staff: User, shop: Shop) -> None:
        group = Group.objects.create(name="billing desk")
        client = signed_in(staff)
        place = reverse("admin:accounts_user_change", args=[shop.cast.owner.pk])
        values = {"email": "owner@example.com", "tz": "UTC", "is_active": "on", "groups": [group.pk]}
        inline = {"ssh_keys-TOTAL_FORMS": "0", "ssh_keys-INITIAL_FORMS": "0"}
        answer = client.post(place, {**values, **inline})
        assert answer.status_code == 302, answer.context["errors"]
        rows = [changes(row) for row in Record.objects.filter(action="staff.changed")]
        joined = [(before["groups"], after["groups"]) for before, after in rows if "groups" in after]
        assert joined == [([], ["billing desk"])]


def changes(record: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was and what is; nothing where there is none."""
    return record.before or {}, record.after or {}


def _text(value: Any) -> Any:
    return "" if value is None or value is False else value
