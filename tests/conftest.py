"""What every test shares."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
from django.test.utils import setup_databases, teardown_databases
from django.utils import translation

from arrakis.accounts.models import Membership, Role, User, Workspace

pytest_plugins = ["tests.demo.fixtures"]

# No test judges by the clock, and the machine may be busy; where a failure must be the change's own, chance is out too.
hypothesis.settings.register_profile(
    "arrakis",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis.settings.load_profile("arrakis")

_NEEDS_SERVICES = {"db", "transactional_db", "django_db_setup", "live_server", "committed"}
_NEEDS_SERVICES |= {"demo_host", "own_host", "demo_hub", "own_hub"}
_SLOW_MARKERS = ("django_db", "services", "browser", "engines")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs neither database nor processes as `fast`: `make test-fast` runs those."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if not fixtures & _NEEDS_SERVICES and not any(item.get_closest_marker(name) for name in _SLOW_MARKERS):
            item.add_marker("fast")


_not_run: Counter[str] = Counter()


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        for name in ("browser", "engines"):
            _not_run[name] += item.get_closest_marker(name) is not None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out and how to run it; skipped tests are listed with their reasons anyway."""
    needs = {"browser": "Chromium", "engines": "CPU builds of vLLM and SGLang, or OpenSSH"}
    for name, count in sorted(_not_run.items()):
        if count:
            terminalreporter.write_line(f"Not run: {count} tests that need {needs[name]} (make test-{name}).")


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest, django_test_environment: None, django_db_blocker: pytest.FixtureRequest
) -> Iterator[None]:
    """The test database, for tests that commit too: pytest-django makes it only for those that ask for `db`."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        made = setup_databases(verbosity=0, interactive=False, aliases={"default": None}, serialized_aliases=set())
        yield
        teardown_databases(made, verbosity=0)


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Tests talk to this machine alone: any other address is refused before a packet leaves."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(method: Any) -> Any:
        def call(self: socket.socket, address: Any, /) -> Any:
            if self.family in {socket.AF_INET, socket.AF_INET6} and not _is_loopback(address[0]):
                raise PermissionError(f"A test wanted to connect to {address[0]}; only loopback is allowed.")
            return method(self, address)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded(connect))
        patch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
        yield


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Each test begins in English, whatever the one before it switched to."""
    with translation.override("en"):
        yield


@dataclass(frozen=True)
class Cast:
    """Owner and member share a workspace; the stranger has another."""

    owner: User
    member: User
    stranger: User
    workspace: Workspace
    other_workspace: Workspace


@pytest.fixture
def cast(db: None) -> Cast:
    owner, member, stranger = (
        User.objects.create_user(f"{name}@example.com", "correct horse battery", name=name.title())
        for name in ("owner", "member", "stranger")
    )
    workspace = Workspace.objects.create(name="Lab", slug="lab")
    other_workspace = Workspace.objects.create(name="Elsewhere", slug="elsewhere")
    Membership.objects.create(workspace=workspace, user=owner, role=Role.OWNER)
    Membership.objects.create(workspace=workspace, user=member, role=Role.DEVELOPER)
    Membership.objects.create(workspace=other_workspace, user=stranger, role=Role.OWNER)
    return Cast(owner, member, stranger, workspace, other_workspace)
