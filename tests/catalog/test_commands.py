from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from catalog import queries
from catalog.models import Offer, Provider, SourceRun, Version
from tests.catalog.market import AT, DATA, SNAPSHOTS

pytestmark = pytest.mark.django_db


def run(*args: Any, **options: Any) -> str:
    out = StringIO()
    call_command(*args, stdout=out, **options)
    return out.getvalue()


def import_offers(path: Path, provider: str = "Acme", **options: Any) -> str:
    return run("import_offers", str(path), provider=provider, **options)


def test_a_snapshot_is_imported_with_its_time() -> None:
    said = import_offers(DATA / SNAPSHOTS["fr"], at="2026-10-31T17:40:00Z")
    assert said == "200 offers imported, 0 of an unknown GPU; 0 no longer listed.\n"
    acme = Provider.objects.get()
    assert (acme.key, acme.name, acme.adaptor, acme.is_sample) == ("acme", "Acme", "", False)
    assert set(Offer.objects.values_list("last_seen", flat=True)) == {AT} == {SourceRun.objects.get().fetched_at}
    assert queries.market().seen_at == AT
    assert queries.quotable_offers() == []


def test_the_next_import_replaces_the_provider_s_offers_and_no_others() -> None:
    import_offers(DATA / SNAPSHOTS["fr"])
    import_offers(DATA / SNAPSHOTS["pt-br"], provider="Other")
    import_offers(DATA / SNAPSHOTS["pt-br"])
    assert queries.market().machine_total == 2 * 188
    assert Provider.objects.count() == 2


def test_sample_data_is_marked_and_stays_so() -> None:
    import_offers(DATA / SNAPSHOTS["fr"], sample=True)
    assert queries.market().is_sample
    import_offers(DATA / SNAPSHOTS["fr"])
    assert queries.market().is_sample


def test_a_real_provider_does_not_become_a_sample() -> None:
    import_offers(DATA / SNAPSHOTS["fr"])
    with pytest.raises(CommandError, match="is not sample data"):
        import_offers(DATA / SNAPSHOTS["fr"], sample=True)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("2026-10-31T17:40:00", "must name its zone"),
        ("yesterday", "must be a time"),
        ("2026-13-01T00:00:00Z", "must be a time"),
        ("2126-01-01T00:00:00Z", "in the future"),
    ],
)
def test_a_time_that_is_no_time_is_refused(at: str, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        import_offers(DATA / SNAPSHOTS["fr"], at=at)
    assert not Provider.objects.exists()


def test_nothing_is_imported_half(tmp_path: Path) -> None:
    import_offers(DATA / SNAPSHOTS["fr"])
    before = Version.objects.get().n
    bad = tmp_path / "bad.jsonl"
    lines = (DATA / SNAPSHOTS["pt-br"]).read_text().splitlines()
    bad.write_text("\n".join([*lines[:5], "{", *lines[5:]]))
    with pytest.raises(CommandError) as caught:
        import_offers(bad)
    assert str(caught.value).startswith("Line 6: it is not JSON")
    assert str(caught.value).endswith("Nothing was imported.")
    assert (queries.market().machine_total, Version.objects.get().n) == (200, before)


def test_a_flood_of_errors_is_cut(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{\n" * 50)
    with pytest.raises(CommandError) as caught:
        import_offers(bad)
    assert len(str(caught.value).split("\n")) == 22
    assert "...and 30 more." in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "offers.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=r"offers\.jsonl"):
        import_offers(path)


def test_a_provider_has_a_name() -> None:
    with pytest.raises(CommandError, match="letter or a digit"):
        import_offers(DATA / SNAPSHOTS["fr"], provider="!!!")
    assert not Provider.objects.exists()


def size(*args: str, **options: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("size", *args, json=True, **options))
    return document


def test_size_of_a_known_model() -> None:
    import_offers(DATA / SNAPSHOTS["fr"])
    document = size("zai-org/GLM-5.3")
    assert (document["model"], document["params"], document["plan"]) == ("zai-org/GLM-5.3", 753_300_000_000, None)
    assert document["reason"] == "exact_plan_not_available"
    assert document["modes"]["serve-8"] == {
        "gb": "903.96",
        "count": 4,
        "gpus": ["B300"],
        "price": "18.40",
        "rent_price": "18.68",
    }
    assert document["modes"]["full"] == {"gb": "12052.8", "count": None, "gpus": [], "price": None, "rent_price": None}


@pytest.mark.parametrize("name", ["glm-5-3", "ZAI-ORG/glm-5.3", "https://huggingface.co/zai-org/GLM-5.3/tree/main"])
def test_size_by_other_names(name: str) -> None:
    assert size(name)["model"] == "zai-org/GLM-5.3"


def test_size_without_offers_is_named_and_not_priced() -> None:
    assert size("70B")["modes"]["serve-8"] == {
        "gb": "84",
        "count": 1,
        "gpus": ["RTX PRO 6000"],
        "price": None,
        "rent_price": None,
    }


def test_size_speaks_the_asked_language() -> None:
    import_offers(DATA / SNAPSHOTS["fr"])
    said = run("size", "70B", lang="fr").replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "1 120 Go" in said
    assert "32,24 $" in said


@pytest.mark.parametrize("name", ["nobody/nothing", "../x", "https://evil.example/a/b", ""])
def test_size_of_what_is_not_known(name: str) -> None:
    with pytest.raises(CommandError):
        run("size", name)
