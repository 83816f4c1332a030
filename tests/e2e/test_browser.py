"""The story through a browser, on a desk and on a phone: from a model's page to an answer, and the end of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.e2e.conftest import Running, until

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [pytest.mark.browser]

RUNNING_MS = 150_000
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=SIZES)
def page(request: pytest.FixtureRequest, chromium: Any) -> Iterator[Any]:
    """A page that fails the test when a script fails or the policy for scripts and styles is broken."""
    width, height = SIZES[request.param]
    context = chromium.new_context(viewport={"width": width, "height": height})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened, wrong = context.new_page(), []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    yield opened
    context.close()
    assert wrong == []


def test_from_a_models_page_to_an_answer(product: Running, page: Any) -> None:
    page.goto(f"{product.url}/en/models/smollm2-135m-instruct/")
    page.get_by_role("link", name="Deploy this model").first.click()
    _sign_in(product, page)
    page.wait_for_url("**/console/models/deploy/**")
    assert page.get_by_role("radio", name="llama.cpp").is_checked()
    assert page.get_by_role("radio", name="vLLM").is_disabled()
    page.get_by_role("button", name="Continue to the price").click()
    page.get_by_role("button", name=re.compile("^Deploy for")).click()
    page.wait_for_url("**/console/deployments/**")
    # Nothing reloads it: the page itself follows what happens.
    page.wait_for_selector('[data-state="running"]', timeout=RUNNING_MS)
    _fits(page)
    key = _make_a_key(page)
    _chat(product, key)
    _stop(page)


def _sign_in(product: Running, page: Any) -> None:
    page.get_by_label("E-mail").fill(product.customer["email"])
    page.get_by_label("Password").fill(product.customer["password"])
    page.get_by_role("main").get_by_role("button", name="Sign in").click()


def _fits(page: Any) -> None:
    """Nothing scrolls out of sight sideways."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def _make_a_key(page: Any) -> str:
    page.get_by_label("Name", exact=True).fill("from a browser")
    page.get_by_role("button", name="Make a key").click()
    secret = page.locator("[data-secret]")
    key: str = secret.inner_text().strip()
    assert re.fullmatch(r"sk-ark-[0-9A-Za-z]{40}", key)
    page.locator(".secret .copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == key
    return key


def _chat(product: Running, key: str) -> None:
    client = openai.OpenAI(base_url=f"{product.gateway_url}/v1", api_key=key, max_retries=0)

    def answered() -> Any:
        try:
            return client.chat.completions.create(
                model="default", messages=[{"role": "user", "content": "Say hello."}], max_tokens=8
            )
        except openai.AuthenticationError:  # the gateways have not heard of the key yet
            return None

    assert until(answered, 30).choices[0].message.content


def _stop(page: Any) -> None:
    """By the keyboard: the dialog opens, says what is lost, and stops."""
    page.get_by_role("link", name="Stop").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    assert "Everything on it is lost" in dialog.inner_text()
    dialog.get_by_role("button", name="Stop it").click()
    page.wait_for_selector('[data-state="stopped"]', timeout=60_000)
    _fits(page)
