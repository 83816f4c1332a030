from __future__ import annotations

from decimal import Decimal

import pytest

from sizing.references import NotAReference, Repository, Size, Slug, parse


@pytest.mark.parametrize(
    "text",
    [
        "zai-org/GLM-5.3",
        " zai-org/GLM-5.3 ",
        "https://huggingface.co/zai-org/GLM-5.3",
        "http://www.huggingface.co/zai-org/GLM-5.3/",
        "huggingface.co/zai-org/GLM-5.3",
        "hf.co/zai-org/GLM-5.3",
        "https://huggingface.co/zai-org/GLM-5.3/tree/main?x=1#top",
    ],
)
def test_a_repository(text: str) -> None:
    assert parse(text) == Repository("zai-org/GLM-5.3")


def test_sizes_and_slugs() -> None:
    assert parse("70B") == Size(Decimal(70))
    assert parse("glm-5-3") == Slug("glm-5-3")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "../etc/passwd",
        "/etc/passwd",
        "./model",
        "a/..",
        "a/b/c",
        "owner/name\nother",
        "owner/na me",
        "https://evil.example/zai-org/GLM-5.3",
        "https://huggingface.co@evil.example/zai-org/GLM-5.3",
        "https://huggingface.co/datasets/squad",
        "https://huggingface.co/zai-org",
        "file:///etc/passwd",
        "http://[::1/x/y",
        "http://169.254.169.254/latest/meta-data",
        "-rf/x",
        "a" * 600,
        "GLM-5.3",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(NotAReference):
        parse(text)


def test_another_hub_is_named() -> None:
    assert parse("http://hub.example/a/b", hub_hosts={"hub.example"}) == Repository("a/b")
