"""The demo from its first line to its last: services, data, processes, watch, and a clean end whatever ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import django
from django.core.management import call_command

from arrakis import embedded
from arrakis.demo import machine
from arrakis.demo.children import ChildFailed, Children, adopt_orphans, end_orphans
from arrakis.demo.product import Ports, Product
from arrakis.embedded.clone import THIS_CLONE, private_folder
from arrakis.embedded.files import open_lock, read_json, try_lock, write_private

_READY_SECONDS = 90.0
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Asked(BaseException):
    """Somebody wants the demo to end: Ctrl-C, a signal, or its terminal is gone."""


def run(*, started: float, wanted_port: int, reset: bool) -> int:
    folder = private_folder()
    lock = open_lock(folder / "demo.lock")
    if not try_lock(lock):
        told = read_json(folder / "demo.json")
        print(f"The demo of this clone is already running{' at ' + told['url'] if told else ' or just starting'}.")
        return 0
    for number in _STOPPERS:
        signal.signal(number, _ask)
    (folder / "demo.json").unlink(missing_ok=True)
    adopt_orphans()
    demo = Demo(folder, wanted_port)
    try:
        if reset:
            demo.forget()
        demo.start(started)
        demo.watch()
    except _Asked:
        _say("\nStopping ...")
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for number in _STOPPERS:
            signal.signal(number, demo.hurry_up)
        demo.stop()
        end_orphans()
        os.close(lock)
    _say("Stopped.")
    return 0


def _ask(_number: int, _frame: FrameType | None) -> None:
    raise _Asked


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError:  # the terminal is gone: that is no reason not to stop properly
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123


class Demo:
    def __init__(self, folder: Path, wanted_port: int) -> None:
        self.folder, self.wanted_port = folder, wanted_port
        self.places = self.product = None  # type: Children | None
        self.is_hurried = False

    def forget(self) -> None:
        """RESET=1: everything but the clone's keys."""
        embedded.reset()
        shutil.rmtree(machine.machine_folder(), ignore_errors=True)
        (self.folder / "demo-accounts.json").unlink(missing_ok=True)

    def start(self, started: float) -> None:
        _say("Starting PostgreSQL and Valkey ...")
        embedded.ensure()
        ports = Ports.choose(self.wanted_port)
        if ports.web != self.wanted_port:
            _say(f"Port {self.wanted_port} is taken; the demo is at {ports.web}.")
        logs = self.folder / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        for old in logs.glob("*.log"):
            old.unlink()
        product = Product(ports, logs)
        os.environ.update(product.environment())
        django.setup()
        _say("Preparing the database ...")
        call_command("migrate", verbosity=0, interactive=False)
        told = self._fill(product)
        self.product = Children(product.processes(), _say)
        _say("Starting the product ...")
        self.product.start()
        self.product.wait_until_ready(_READY_SECONDS)
        _reclaim()
        write_private(self.folder / "demo.json", json.dumps(told, indent=1))
        _greet(told, time.time() - started)

    def _fill(self, product: Product) -> dict[str, Any]:
        """The data, and the outside world that it names."""
        from arrakis.demo import accounts, market

        here = machine.prepare(product.ports.machine)
        self.places = Children(product.places(here), _say)
        self.places.start()
        market.import_snapshot()
        told = accounts.demo_accounts(self.folder / "demo-accounts.json")
        self.places.wait_until_ready(_READY_SECONDS)
        told_by_machine = here.told
        market.offer_this_machine(
            port=here.port,
            user=told_by_machine["user"],
            host_key=told_by_machine["host_key"],
            private_key=here.private_key,
        )
        market.list_model(product.hub_url)
        return {"url": product.url, "gateway_url": product.gateway_url, **told, "machine_gpu": market.MACHINE_GPU}

    def watch(self) -> None:
        """Start again what dies, until asked to end."""
        while True:
            for children in (self.places, self.product):
                if children is not None:
                    children.revive()
            time.sleep(0.5)

    def stop(self) -> None:
        """Engines first, while there is somebody to stop them and settle their time; then processes; then services."""
        (self.folder / "demo.json").unlink(missing_ok=True)
        if self.product is not None:
            from arrakis.demo.closing import stop_deployments

            stop_deployments(is_hurried=lambda: self.is_hurried, say=_say)
            self.product.stop()
        if self.places is not None:
            self.places.stop()
        embedded.stop()

    def hurry_up(self, _number: int, _frame: FrameType | None) -> None:
        self.is_hurried = True


def _reclaim() -> None:
    """End what a killed demo left running, so that nobody pays for it."""
    from arrakis.demo.closing import stop_leftovers

    if left := stop_leftovers():
        _say(f"Deployments left by the last run and stopped now: {left}.")


def _greet(told: dict[str, Any], seconds: float) -> None:
    customer, staff = told["customer"], told["staff"]
    manage = Path(os.path.relpath(THIS_CLONE / ".venv/bin/python"))
    _say(
        f"""
Ready in {seconds:.0f} s.

  Shop      {told["url"]}/
  Customer  {told["url"]}/en/console/   {customer["email"]}   {customer["password"]}
  Staff     {told["url"]}/admin/        {staff["email"]}   {staff["password"]}
  API       {told["url"]}/api/docs/     token {customer["api_token"]}
  Gateway   {told["gateway_url"]}/v1

  From another shell: {manage} manage.py COMMAND. The same is in .arrakis/demo.json. Ctrl-C stops everything.
"""
    )
