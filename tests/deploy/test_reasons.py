"""Every reason code that the code can raise has its sentence, in whatever language it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import translation

from deploy import reasons, sentences
from deploy.machine.status import ERROR_CODES
from deploy.states import STARTING, State

ROOT = Path(__file__).resolve().parents[2]
RAISING = frozenset(
    {
        "ArrakisError",
        "BadArgument",
        "BadPublicKey",
        "BadRequest",
        "CommandFailed",
        "Conflict",
        "Fail",
        "Forbidden",
        "HostKeyChanged",
        "HostUnreachable",
        "HubRefused",
        "InsufficientBalance",
        "InvalidAmount",
        "LoginRefused",
        "MachineMissing",
        "MachineProblem",
        "NextOffer",
        "NoAnswer",
        "NotFound",
        "NotYet",
        "OutcomeUnknown",
        "ProviderError",
        "Refusal",
        "Refused",
        "Unavailable",
        "ZeroTransfer",
    }
)
ELSEWHERE = ("deploy/gateway/",)
"""The gateway words its own errors, in OpenAI's shape and English."""


def codes_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in RAISING and node.args:
            yield from texts(node.args[0])
        elif name == "write" and len(node.args) > 1 and ast.unparse(node.func) == "events.write":
            yield from texts(node.args[1])
        for keyword in node.keywords:
            if keyword.arg == "reason_code" or (keyword.arg == "event" and name in {"Move", "Stay"}):
                yield from texts(keyword.value)


def texts(node: ast.AST) -> Iterator[str]:
    """A literal, or both sides of `a or "b"` and `"a" if x else "b"`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from texts(value)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def test_every_code_has_a_sentence() -> None:
    raised: dict[str, str] = {}
    for app in ("arrakis", "catalog", "sizing", "deploy"):
        for path in (ROOT / app).rglob("*.py"):
            place = path.relative_to(ROOT).as_posix()
            if not place.startswith(ELSEWHERE):
                raised.update(dict.fromkeys(codes_in(ast.parse(path.read_text())), place))
    raised.update(dict.fromkeys(("demo_ended", "stopped_by_customer"), "services.stop"))
    raised.update(dict.fromkeys(ERROR_CODES, "deploy/machine/status.py"))
    raised.update({state.value: "deploy/states.py" for state in (*STARTING, State.RUNNING, State.UNHEALTHY)})
    assert len(raised) > 80
    assert {code: place for code, place in raised.items() if not reasons.known(code)} == {}


def test_no_code_has_two_rows_and_all_are_sorted() -> None:
    for table in (sentences.REFUSALS, sentences.EVENTS):
        assert list(table) == sorted(table)
    assert not set(sentences.REFUSALS) & set(sentences.EVENTS)


@pytest.mark.parametrize("code", sorted(reasons.ROWS))
def test_every_row_renders_without_any_parameter(code: str) -> None:
    assert str(reasons.sentence(code, {}))
    str(reasons.suggestion(code, {}))


def test_amounts_are_written_in_the_readers_language() -> None:
    said = reasons.sentence("insufficient_balance", {"needed": "1234.5", "available": "0.01"})
    with translation.override("en"):
        assert "$1,234.50" in str(said)
    with translation.override("pt-br"):
        assert "US$\N{NO-BREAK SPACE}1.234,50" in str(said)


def test_what_a_machine_said_is_cut_and_never_a_format() -> None:
    assert "%(x)s" in str(reasons.sentence("gpu_unknown", {"gpu": "%(x)s"}))
    assert len(str(reasons.sentence("gpu_unknown", {"gpu": "x" * 5000}))) < 400


def test_an_unknown_code_is_shown_as_unknown() -> None:
    assert "brand_new_code" in str(reasons.sentence("brand_new_code", {}))


def test_sold_out_suggests_what_there_is() -> None:
    with translation.override("en"):
        none = str(reasons.suggestion("sold_out", {"next_gpu": "", "next_count": 0, "next_price": ""}))
        some = str(reasons.suggestion("sold_out", {"next_gpu": "H100", "next_count": 2, "next_price": "4.60"}))
    assert "2 × H100 for $4.60 per hour" in some
    assert "Look again" in none
