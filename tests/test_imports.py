"""Imports run one way: kernel <- catalog <- sizing <- deploy, and in deploy from the edge inwards."""

from __future__ import annotations

from functools import cache

import grimp
import pytest

PACKAGES = ("arrakis", "catalog", "sizing", "deploy")
# Where everything is put together: these may import anything, and nothing of the kernel imports them.
ENTRY_POINTS = {
    "arrakis.asgi",
    "arrakis.celery",
    "arrakis.settings",
    "arrakis.urls",
    "arrakis.api_urls",
    "arrakis.demo",
}
EDGES = ("views", "urls", "admin", "api_urls", "console", "api")


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def imports(importer: str, imported: str) -> list[tuple[str, str]]:
    """Direct imports from `importer`, or below it, of `imported`, or below it."""
    found = []
    for module in sorted(graph().modules):
        if _is_within(module, importer):
            targets = graph().find_modules_directly_imported_by(module)
            found += [(module, target) for target in sorted(targets) if _is_within(target, imported)]
    return found


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _is_entry_point(module: str) -> bool:
    return any(_is_within(module, entry) for entry in ENTRY_POINTS)


def test_the_rules_see_imports() -> None:
    assert imports("sizing", "catalog")
    assert imports("deploy", "sizing")
    assert imports("arrakis.settings", "csp")


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("arrakis", "catalog"),
        ("arrakis", "sizing"),
        ("arrakis", "deploy"),
        ("catalog", "sizing"),
        ("catalog", "deploy"),
        ("sizing", "deploy"),
    ],
)
def test_a_lower_package_imports_no_upper_one(lower: str, upper: str) -> None:
    assert [pair for pair in imports(lower, upper) if not _is_entry_point(pair[0])] == []


def test_the_kernel_imports_no_entry_point() -> None:
    entries = [pair for entry in ENTRY_POINTS for package in PACKAGES for pair in imports(package, entry)]
    wrong = [
        (module, target)
        for module, target in entries
        if not _is_entry_point(module) and target != "arrakis.celery" and not _is_url_list(module)
    ]
    assert wrong == []


def _is_url_list(module: str) -> bool:
    return module.rsplit(".", 1)[-1] in {"urls", "api_urls"}


def test_the_ledger_knows_no_sibling() -> None:
    siblings = [pair for pair in imports("deploy.ledger", "deploy") if not _is_within(pair[1], "deploy.ledger")]
    assert siblings == []


@pytest.mark.parametrize("inner", ["deploy.providers", "deploy.engines", "deploy.machine"])
def test_the_inside_of_deploy_does_not_look_out(inner: str) -> None:
    outward = ("services", "tasks", "reconcile", "sweeps", "steps", "console", "api", "admin")
    assert [pair for name in outward for pair in imports(inner, f"deploy.{name}")] == []


@pytest.mark.parametrize("step", ["deploy.reconcile", "deploy.steps", "deploy.sweeps", "deploy.services"])
def test_steps_and_services_import_no_task_and_no_edge(step: str) -> None:
    outward = ("tasks", "console", "api", "admin", "api_urls")
    assert [pair for name in outward for pair in imports(step, f"deploy.{name}")] == []


def test_nothing_imports_views_urls_or_admin() -> None:
    """But the edge itself, the entry points, and an app's own lists of addresses."""
    wrong = []
    for module in sorted(graph().modules):
        if not _is_edge(module) and not _is_entry_point(module) and module.split(".")[0] in PACKAGES:
            targets = graph().find_modules_directly_imported_by(module)
            wrong += [(module, target) for target in targets if target.split(".")[0] in PACKAGES and _is_edge(target)]
    assert wrong == []


def _is_edge(module: str) -> bool:
    """Views, urls, admin, and the packages that hold nothing else. `arrakis.api` is the frame that APIs stand in."""
    parts = module.split(".")
    return module != "arrakis.api" and any(part in EDGES for part in parts[1:])


_HUB = ("config", "contents", "counting", "gguf", "kinds", "listing", "packing", "safetensors", "torchfile", "wanted")
PURE = [
    "sizing.memory",
    "sizing.fit",
    "sizing.facts",
    "sizing.architecture",
    "sizing.precision",
    "sizing.overheads",
    "sizing.plan",
    "sizing.configurations",
    "sizing.throughput",
    "sizing.finetuning",
    "deploy.engines",
    "deploy.plans",
]
PURE += [f"sizing.hub.{name}" for name in _HUB]


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_import_neither_django_nor_the_network(module: str) -> None:
    for outside in ("django", "rest_framework", "psycopg", "redis", "aiohttp", "httpx", "asyncssh", "socket", "ssl"):
        assert imports(module, outside) == []
