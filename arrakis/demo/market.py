"""What the demo has for rent and to run: a snapshot of the market, this machine as a host, the model of its hub."""

from __future__ import annotations

import json
import os
import urllib.request
from decimal import Decimal
from pathlib import Path

from django.core.management import call_command

from arrakis import vault
from catalog.models import FleetHost, Gpu, Provider
from catalog.sources import fleet
from sizing.models import HubModel

SNAPSHOT = Path(__file__).parent / "data" / "offers-2026-10-31T1740Z.jsonl"
SNAPSHOT_AT = "2026-10-31T17:40:00+00:00"
SNAPSHOT_NAME = "Sample market"
MACHINE = "This machine (demo)"
MACHINE_GPU = "cpu"
COST_USD_PER_HOUR = Decimal("0.36")
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def import_snapshot() -> None:
    """Once: it is of one moment, and says so."""
    if not Provider.objects.filter(name=SNAPSHOT_NAME, offers__isnull=False).exists():
        call_command("import_offers", str(SNAPSHOT), provider=SNAPSHOT_NAME, at=SNAPSHOT_AT, sample=True, verbosity=0)


def offer_this_machine(*, port: int, user: str, host_key: str, private_key: str) -> FleetHost:
    """This machine's SSH server as one of the operator's own hosts, where it listens now."""
    known = FleetHost.objects.filter(name=MACHINE).first()
    host = known or FleetHost(name=MACHINE, gpu=Gpu.objects.get(key=MACHINE_GPU), cost=COST_USD_PER_HOUR)
    host.address, host.port, host.user, host.host_key = "127.0.0.1", port, user, host_key
    host.access_key = vault.encrypt(private_key)
    host.mode, host.is_demo, host.region = FleetHost.Mode.BARE, True, ""
    host.ram = max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 10**9, 1)
    host.save()
    fleet.refresh()
    return host


def list_model(hub: str) -> None:
    """The model that the demo's hub serves, with the files and hashes the hub itself tells."""
    with urllib.request.urlopen(f"{hub}/api/models/{MODEL}/revision/main?blobs=true", timeout=10) as answer:  # noqa: S310
        told = json.load(answer)
    files = [
        {
            "path": file["rfilename"],
            "size": file["size"],
            "sha256": (file.get("lfs") or {}).get("sha256"),
            "format": file["rfilename"].rsplit(".", 1)[-1],
        }
        for file in told["siblings"]
    ]
    HubModel.objects.filter(repo_id__iexact=MODEL).update(endpoint=hub, revision=told["sha"], files=files)
