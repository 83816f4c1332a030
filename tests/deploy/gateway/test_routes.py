"""Which deployment a name means, and what a body says: the pure parts."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.gateway import asked, usage
from deploy.gateway.errors import KINDS, Refused, shorten
from deploy.gateway.routes import Key, Route, Workspace
from deploy.gateway.usage import Tail, Tokens, tokens_in


def a_key(*grants: Route) -> Key:
    opens = frozenset(route.deployment for route in grants) or None
    return Key(str(uuid4()), str(uuid4()), True, False, None, (), 1, opens)


def a_route(repo_id: str = "o/m", state: str = "running", created: int = 1) -> Route:
    return Route(str(uuid4()), repo_id, repo_id, state, "", created, str(uuid4()))


def test_default_is_the_newest_that_serves() -> None:
    old, new = a_route("o/old", created=1), a_route("o/new", created=2)
    starting, ended = a_route("o/starting", "loading", 3), a_route("o/ended", "stopped", 4)
    workspace = Workspace.of(str(uuid4()), False, [ended, old, starting, new])
    assert workspace.choose(a_key(), None) is new
    assert workspace.choose(a_key(), "Default") is new
    assert workspace.choose(a_key(starting, ended), "default") is starting
    assert [route.repo_id for route in workspace.models(a_key())] == ["o/new", "o/old", "o/starting"]


def test_of_two_with_one_name_the_one_that_serves() -> None:
    stopped, running = a_route(state="stopped", created=9), a_route(state="running", created=1)
    workspace = Workspace.of(str(uuid4()), False, [stopped, running])
    assert workspace.choose(a_key(), "O/M") is running
    assert len(list(workspace.models(a_key()))) == 1


def test_a_key_that_opens_nothing() -> None:
    workspace = Workspace.of(str(uuid4()), False, [a_route()])
    with pytest.raises(Refused) as caught:
        workspace.choose(a_key(a_route("o/other")), "o/m")
    assert caught.value.code == "no_model" and b"model_not_found" in caught.value.body()


def test_every_refusal_has_its_sentence() -> None:
    params: Any = {
        "model": "m",
        "stage": "s",
        "most": 1,
        "most_mib": 1,
        "allowed": "GET",
        "problem": "p",
        "message": "50% m",
    }
    for code in KINDS:
        assert b'"message": "' in Refused(code, available="a", **params).body("en")


@given(st.text(max_size=3_000))
def test_text_of_others_is_one_printable_line(text: str) -> None:
    short = shorten(text)
    assert len(short) <= 200 and (not short or short.isprintable())


@given(st.binary(max_size=200))
def test_any_body_is_parsed_or_refused(raw: bytes) -> None:
    try:
        question = asked.parse(raw)
    except Refused:
        return
    assert question.model is None or isinstance(question.model, str)


def test_usage_in_the_tail() -> None:
    tail = Tail()
    for _ in range(10_000):
        tail.add(b'data: {"choices":[{"delta":{"content":"\\"usage\\":{\\"prompt_tokens\\":999}"}}]}\n\n')
    tail.add(b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"details":{"cached":1}}}\n\n')
    tail.add(b"data: [DONE]\n\n")
    assert len(tail.bytes()) <= usage.TAIL_BYTES
    assert tokens_in(tail.bytes()) == Tokens(7, 3)


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        (b'{"usage":{"input_tokens":5,"output_tokens":6}}', Tokens(5, 6)),
        (b'data: {"timings":{"prompt_n":4,"predicted_n":2}}\n\n', Tokens(4, 2)),
        (b'{"usage":{"prompt_tokens":-1,"completion_tokens":true}}', Tokens(0, 0)),
        (b'{"usage":{"prompt_tokens":1e9,"completion_tokens":99999999999999}}', Tokens(0, 0)),
        (b'{"usage":null}', Tokens(0, 0)),
        (b'{"usage":{{{{', Tokens(0, 0)),
        (b"", Tokens(0, 0)),
    ],
)
def test_usage_of_each_engine(said: bytes, tokens: Tokens) -> None:
    assert tokens_in(said) == tokens
