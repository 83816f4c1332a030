"""Addresses of the console."""

from __future__ import annotations

from django.urls import path
from django.views.generic import RedirectView

from deploy.console.views import deployments, keys, models, session, workspace

_DEPLOYMENT = "deployments/<uuid:deployment_id>/"

app_name = "console"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console:models"), name="home"),
    path("sign-in/", session.sign_in, name="sign-in"),
    path("sign-up/", session.sign_up, name="sign-up"),
    path("sign-out/", session.sign_out, name="sign-out"),
    path("corner/", session.corner, name="corner"),
    path("models/", models.models, name="models"),
    path("models/deploy/", models.deploy, name="deploy"),
    path("quotes/<uuid:quote_id>/", models.quote, name="quote"),
    path("quotes/<uuid:quote_id>/accept/", models.accept, name="accept"),
    path("deployments/", deployments.deployments, name="deployments"),
    path(_DEPLOYMENT, deployments.deployment, name="deployment"),
    path(f"{_DEPLOYMENT}live/", deployments.live, name="live"),
    path(f"{_DEPLOYMENT}logs/", deployments.logs, name="logs"),
    path(f"{_DEPLOYMENT}stop/", deployments.stop, name="stop"),
    path(f"{_DEPLOYMENT}restart/", deployments.restart, name="restart"),
    path(f"{_DEPLOYMENT}let-in/", deployments.let_in, name="let-in"),
    path("keys/", keys.endpoint_keys, name="keys"),
    path("keys/<uuid:key_id>/revoke/", keys.revoke_key, name="revoke-key"),
    path("usage/", keys.usage, name="usage"),
    path("api-tokens/", keys.api_tokens, name="api-tokens"),
    path("api-tokens/<uuid:token_id>/revoke/", keys.revoke_token, name="revoke-token"),
    path("ssh-keys/", keys.ssh_keys, name="ssh-keys"),
    path("ssh-keys/<uuid:key_id>/delete/", keys.delete_ssh_key, name="delete-ssh-key"),
    path("billing/", workspace.billing, name="billing"),
    path("members/", workspace.members, name="members"),
    path("members/<int:membership_id>/role/", workspace.change_role, name="change-role"),
    path("members/<int:membership_id>/remove/", workspace.remove_member, name="remove-member"),
    path("workspace/", workspace.switch_workspace, name="switch-workspace"),
    path("settings/", workspace.preferences, name="settings"),
    path("settings/password/", workspace.password, name="password"),
]
