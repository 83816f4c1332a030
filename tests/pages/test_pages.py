"""Every public page: it answers in each language, is valid and complete, costs few queries, and reads no session."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalog.versions import bump
from sizing.models import HubModel, SlugHistory
from tests.pages.parsing import Element, parse

pytestmark = pytest.mark.django_db

QUERIES = {
    "": 2,
    "gpus/": 2,
    "gpus/?sort=price": 2,
    "gpus/h100/": 3,
    "models/": 2,
    "models/?q=qwen": 2,
    "models/glm-5-3/": 2,
    "models/smollm2-135m-instruct/": 2,
    "models/check/?model=70B": 2,
    "models/check/?model=nobody/nothing": 2,
    "models/check/?model=what%20is%20this": 2,
    "guides/": 0,
    "guides/gpu-memory/": 1,
    "guides/deploy/": 0,
}
STATUS = {
    "models/check/?model=nobody/nothing": 404,
    "models/check/?model=what%20is%20this": 400,
    "nowhere/": 404,
}
"""Every other page: 200."""
LANGUAGES = ["en", "fr", "pt-br"]


def load(visitor: Client, path: str, status: int = 200) -> Element:
    response = visitor.get(path)
    assert response.status_code == status
    return parse(response.content.decode())


@pytest.mark.parametrize("path", QUERIES)
def test_queries_are_few_and_none_is_for_a_session(
    path: str, market: Callable[[], None], visitor: Client, cast: object
) -> None:
    market()
    assert visitor.login(username="owner@example.com", password="correct horse battery")
    with CaptureQueriesContext(connection) as captured:
        response = visitor.get(f"/en/{path}")
    assert response.status_code == STATUS.get(path, 200)
    assert len(captured) == QUERIES[path] <= 3
    assert not any("django_session" in query["sql"] for query in captured.captured_queries)
    assert "Cookie" not in response.headers.get("Vary", "")
    assert not response.cookies


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("path", [*QUERIES, "nowhere/"])
def test_structure(path: str, lang: str, market: Callable[[], None], visitor: Client) -> None:
    market()
    page = load(visitor, f"/{lang}/{path}", STATUS.get(path, 200))
    (html,) = page.find("html")
    assert html.attributes["lang"] == {"en": "en", "fr": "fr", "pt-br": "pt-BR"}[lang]
    assert len(page.find("h1")) == len(page.find("main")) == len(page.find("title")) == 1
    assert len(page.find("header")) == len(page.find("footer")) == 1
    assert page.find("a", href="#main", **{"class": "skip"})
    ids = [it.attributes["id"] for it in page.find(id=None)]
    assert len(ids) == len(set(ids))
    for label in page.find("label"):
        assert label.attributes["for"] in ids
    for it in page.find(aria_labelledby=None):
        assert it.attributes["aria-labelledby"] in ids
    levels = [int(it.tag[1]) for it in page.walk() if it.tag in {"h1", "h2", "h3", "h4"}]
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    assert not page.find(style=None)
    assert not page.find("style")
    assert not [it for it in page.walk() if any(name.startswith("on") for name in it.attributes)]
    inline = [it for it in page.find("script") if "src" not in it.attributes]
    assert {it.attributes.get("type") for it in inline} <= {"application/ld+json"}
    for image in page.find("img"):
        assert "alt" in image.attributes


@pytest.mark.parametrize("path", QUERIES)
def test_links_lead_somewhere(path: str, market: Callable[[], None], visitor: Client) -> None:
    market()
    page = load(visitor, f"/fr/{path}", STATUS.get(path, 200))
    addresses = {it.attributes["href"].split("#")[0] for it in page.find("a", href=None)}
    for address in sorted(addresses):
        if address.startswith("/") and "/console/" not in address and "/api/" not in address:
            expected = STATUS.get(path, 200) if path and address.endswith(path) else 200
            assert visitor.get(address).status_code == expected, address
        assert not address.startswith("/en/") or "hreflang" in str(page.find("a", href=address)[0].attributes)


def test_the_language_switch_keeps_page_and_query(visitor: Client) -> None:
    page = load(visitor, "/en/models/?q=Qwen2.5+14B")
    for code, tag in (("fr", "fr"), ("pt-br", "pt-BR")):
        links = {it.attributes["href"] for it in page.find("a", hreflang=tag)}
        assert links == {f"/{code}/models/?q=Qwen2.5+14B"}
        (alternate,) = page.find("link", hreflang=tag)
        assert alternate.attributes["href"] == f"{settings.SITE_URL}/{code}/models/"
    assert load(visitor, "/fr/models/?q=Qwen2.5+14B").find("a", href="/fr/models/qwen2-5-14b-instruct/")


def test_unchanged_pages_are_not_sent_again(market: Callable[[], None], visitor: Client) -> None:
    market()
    first = visitor.get("/en/models/glm-5-3/")
    etag = first.headers["ETag"]
    with CaptureQueriesContext(connection) as captured:
        again = visitor.get("/en/models/glm-5-3/", headers={"If-None-Match": etag})
    assert (again.status_code, again.content, len(captured)) == (304, b"", 2)
    assert visitor.get("/fr/models/glm-5-3/").headers["ETag"] != etag
    bump()
    changed = visitor.get("/en/models/glm-5-3/", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag


def test_old_and_unknown_slugs(visitor: Client) -> None:
    model = HubModel.objects.get(slug="glm-5-3")
    SlugHistory.objects.create(slug="glm-old", model=model)
    response = visitor.get("/fr/models/glm-old/")
    assert (response.status_code, response.headers["Location"]) == (301, "/fr/models/glm-5-3/")
    assert visitor.get("/fr/models/no-such-model/").status_code == 404
    assert visitor.get("/fr/gpus/no-such-gpu/").status_code == 404
    model.is_listed = False
    model.save(update_fields=["is_listed"])
    assert visitor.get("/fr/models/glm-5-3/").status_code == 404
    assert visitor.get("/fr/models/glm-old/").status_code == 404


@pytest.mark.parametrize(
    "asked",
    ["zai-org/GLM-5.3", "ZAI-ORG/glm-5.3", "glm-5-3", "https://huggingface.co/zai-org/GLM-5.3/tree/main", " glm-5-3 "],
)
def test_a_known_model_has_its_page(asked: str, visitor: Client) -> None:
    response = visitor.get("/fr/models/check/", {"model": asked})
    assert (response.status_code, response.headers["Location"]) == (302, "/fr/models/glm-5-3/")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("nobody/nothing", 404),
        ("<script>alert(1)</script>", 400),
        ("http://169.254.169.254/a/b", 400),
        ("x" * 9999, 404),
    ],
    ids=["unknown", "markup", "address", "long"],
)
def test_anything_else_is_told_plainly(asked: str, status: int, visitor: Client) -> None:
    response = visitor.get("/en/models/check/", {"model": asked})
    assert response.status_code == status
    assert b"<script>alert" not in response.content
    (alert,) = parse(response.content.decode()).find("div", **{"class": "alert warn"})
    assert "Give" in alert.text


def test_without_offers_nothing_is_priced(visitor: Client) -> None:
    page = load(visitor, "/en/models/glm-5-3/")
    (cell,) = page.find("td", data_mode="serve-16")
    assert (cell.attributes["data-gpus"], cell.attributes["data-price"]) == ("B300", "")
    assert "8 × B300" in cell.text
    assert "no live price right now" in cell.text
    assert "$" not in page.find("main")[0].text


def test_sample_data_says_so_and_live_data_its_age(market: Callable[..., None], visitor: Client) -> None:
    market("fr")
    assert "cannot be rented" in load(visitor, "/en/gpus/").text
    market("fr", is_sample=False)
    bump()
    page = load(visitor, "/en/gpus/")
    assert "cannot be rented" not in page.text
    (time,) = page.find("time", data_age=None)
    assert time.attributes["datetime"].startswith("2026-10-31T17:40")


def test_what_a_model_page_must_say(market: Callable[[], None], visitor: Client) -> None:
    market()
    page = load(visitor, "/en/models/glm-5-3/")
    text = page.find("main")[0].text
    for part in (
        "1,808 GB", "904 GB", "452 GB", "20%", "256 experts, of which 8 are active",
        "Deploy this model", "Check another",
        "Activations", "1,048,576 tokens", "FP8", "other", "August 25, 2026", "Does GLM-5.3 run on one GPU?",
        "How do I deploy GLM-5.3?", "charged by the second", "root SSH", "2 × B300",
    ):  # fmt: skip
        assert part in text, part
    assert page.find("a", href="/en/console/models/?model=zai-org/GLM-5.3")
    assert page.find("a", href="https://huggingface.co/zai-org/GLM-5.3")
    (command,) = page.find("code", id="command-vllm")
    assert command.text == "vllm serve zai-org/GLM-5.3 --tensor-parallel-size 8"
    (small,) = load(visitor, "/en/models/smollm2-135m-instruct/").find("code", id="command-vllm")
    assert small.text == "vllm serve HuggingFaceTB/SmolLM2-135M-Instruct"
    assert [row.attributes["data-mode"] for row in page.find("td", data_mode=None)] == [
        "serve-16", "serve-8", "serve-4", "qlora", "lora", "full",
    ]  # fmt: skip


def test_a_model_nothing_holds_has_a_sentence_instead_of_a_command(market: Callable[[], None], visitor: Client) -> None:
    market()
    HubModel.objects.filter(slug="glm-5-3").update(params_total=9_000_000_000_000)
    bump()
    page = load(visitor, "/en/models/glm-5-3/")
    assert not page.find("code", id="command-vllm")
    assert "no single command serves it" in page.text
    assert "more than one machine of eight GPUs" in page.find("td", data_mode="serve-4")[0].text


def test_gpu_page(market: Callable[[], None], visitor: Client) -> None:
    market()
    text = load(visitor, "/en/gpus/b300/").find("main")[0].text
    for part in ("262.5 GB", "$4.60", "$18.68", "2,100 GB", "sample", "GLM-5.3"):
        assert part in text, part


def test_front_door(visitor: Client) -> None:
    response = visitor.get("/", headers={"Accept-Language": "pt-BR,pt;q=0.9"})
    assert (response.status_code, response.headers["Location"]) == (302, "/pt-br/")
    assert "Accept-Language" in response.headers["Vary"]
    assert visitor.get("/", headers={"Accept-Language": "tlh"}).headers["Location"] == "/en/"


def test_a_failure_is_told_without_the_database(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sizing.pages.market", lambda: 1 // 0)
    visitor.raise_request_exception = False
    with CaptureQueriesContext(connection) as captured:
        response = visitor.get("/fr/")
    assert (response.status_code, len(captured)) == (500, 0)
    assert parse(response.content.decode()).find("html")[0].attributes["lang"] == "fr"


def test_search_engines_find_every_page(visitor: Client) -> None:
    assert f"Sitemap: {settings.SITE_URL}/sitemap.xml" in visitor.get("/robots.txt").content.decode()
    tree = ElementTree.fromstring(visitor.get("/sitemap.xml").content)
    found = {it.text for it in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")}
    for lang in LANGUAGES:
        for path in ("", "gpus/h100/", "models/glm-5-3/", "guides/gpu-memory/"):
            assert f"{settings.SITE_URL}/{lang}/{path}" in found
