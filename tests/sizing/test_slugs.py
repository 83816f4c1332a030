from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.slugs import LONGEST, model_slug, slugify


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("GLM-5.3", "glm-5-3"),
        ("Llama-3.1-8B-Instruct", "llama-3-1-8b-instruct"),
        ("__A..b--C__", "a-b-c"),
        ("é", ""),
        ("", ""),
    ],
)
def test_slugify(name: str, slug: str) -> None:
    assert slugify(name) == slug


def test_first_come_plain_later_with_the_owner_then_numbered() -> None:
    taken: set[str] = set()
    for expected in ("glm-5-3", "zai-org-glm-5-3", "zai-org-glm-5-3-2", "zai-org-glm-5-3-3"):
        slug = model_slug("zai-org/GLM-5.3", taken)
        assert slug == expected
        taken.add(slug)


def test_check_is_reserved() -> None:
    assert model_slug("acme/Check", ()) == "acme-check"
    assert model_slug("check", ()) == "check-2"


def test_no_address_without_a_letter() -> None:
    with pytest.raises(ValueError, match="no address"):
        model_slug("--/..", ())


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}", fullmatch=True), st.data())
def test_slugs_are_new_and_fit_an_address(repo_id: str, data: st.DataObject) -> None:
    taken = {model_slug(repo_id, ())} if data.draw(st.booleans()) else set()
    slug = model_slug(repo_id, taken)
    assert slug not in taken
    assert len(slug) <= LONGEST
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug)
