"""How a rented machine is reached by its own keys."""

from __future__ import annotations

from arrakis import vault
from deploy.machine.ssh import Target
from deploy.models import Machine


def target(machine: Machine) -> Target:
    """With the workers' key of this machine, and its pinned host key once one is known."""
    return Target(
        host=machine.ssh_host,
        port=machine.ssh_port or 22,
        user=machine.ssh_user,
        host_key=machine.host_key or None,
        private_key=vault.decrypt(machine.admin_key),
    )
