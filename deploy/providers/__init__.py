"""What rents machines: `PROVIDERS` holds the only instance of each adaptor, by its key."""

from __future__ import annotations

from deploy.models import Machine
from deploy.providers.base import Provider
from deploy.providers.fleet import FleetProvider

PROVIDERS: dict[str, Provider] = {provider.key: provider for provider in (FleetProvider(),)}


def provider_of(machine: Machine) -> Provider:
    """The adaptor a machine was rented through. KeyError for one whose adaptor was taken out of the code."""
    return PROVIDERS[machine.provider.adaptor]
