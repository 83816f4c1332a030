"""What machines and people send, read without believing it: keys, logs, states, facts."""

from __future__ import annotations

import json

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.machine import keys
from deploy.machine.errors import BadPublicKey, MachineProblem
from deploy.machine.host import parse_facts
from deploy.machine.logs import MAX_BYTES, cleaned
from deploy.machine.status import parse_status

LABEL = "arrakis-test-0001"
STATE = {
    "stage": "downloading",
    "bytes_done": 1,
    "bytes_total": 2,
    "engine_port": 20001,
    "engine_state": "none",
    "restarts": 0,
    "exit_code": None,
    "gpu": None,
    "error_code": None,
    "seen_at": 1,
}


@pytest.fixture(scope="module")
def public_key() -> str:
    return asyncssh.generate_private_key("ssh-ed25519", comment="someone@somewhere").export_public_key().decode()


def test_a_key_loses_its_comment_and_keeps_its_type(public_key: str) -> None:
    assert keys.normalized(public_key) == " ".join(public_key.split()[:2])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ('command="sh" ssh-ed25519 AAAA', "type"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACB", "type"),
        ("ssh-ed25519 not-base64", "malformed"),
        ("ssh-ed25519", "malformed"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "type"),
    ],
)
def test_what_is_no_public_key_is_refused_by_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(BadPublicKey) as refused:
        keys.normalized(text)
    assert refused.value.params == {"problem": problem}


@pytest.mark.parametrize("inside", ["\n", "\r", "\x00", "\x1b[0m"])
def test_a_second_line_cannot_ride_in(public_key: str, inside: str) -> None:
    with pytest.raises(BadPublicKey):
        keys.normalized(f"{public_key.strip()} a{inside}{public_key}")


def test_a_weak_key_is_refused() -> None:
    weak = asyncssh.generate_private_key("ssh-rsa", key_size=1024).export_public_key().decode()
    with pytest.raises(BadPublicKey) as refused:
        keys.normalized(weak)
    assert refused.value.params == {"problem": "weak"}


def test_the_tunnels_line_allows_one_command_and_one_port(public_key: str) -> None:
    line = keys.tunnel_line(public_key, LABEL, base='/a b/"c', port=20001)
    assert line.startswith('command="\'/a b/\\"c/supervisor.sh\' watch",permitopen="127.0.0.1:20001",')
    assert line.endswith(f"arrakis:{LABEL}:tunnel")


def test_a_log_is_shown_without_codes_controls_and_keys() -> None:
    raw = (
        b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x00 \xe2\x80\xaetxt api_key': 'sk-sg' hf_abcdefgh12 <b>x</b>\r\nnext\xff"
    )
    assert cleaned(raw) == "red  txt api_key': '***' *** <b>x</b>\nnext\ufffd"


@given(st.binary(max_size=4000))
def test_no_log_survives_with_a_control_character(raw: bytes) -> None:
    assert all(character in "\n\t" or character.isprintable() for character in cleaned(raw))


def test_a_log_is_cut_from_its_beginning() -> None:
    assert len(cleaned(b"a\n" * MAX_BYTES)) == MAX_BYTES


def test_a_state_is_read() -> None:
    status = parse_status(json.dumps(STATE).encode())
    assert (status.stage, status.bytes_done, status.engine_port) == ("downloading", 1, 20001)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"stage": "<script>"}, "stage"),
        ({"bytes_done": -1}, "bytes_done"),
        ({"bytes_done": True}, "bytes_done"),
        ({"bytes_done": 1e300}, "bytes_done"),
        ({"engine_port": 70000}, "engine_port"),
        ({"error_code": "x" * 60}, "error_code"),
        ({"gpu": [{}] * 17}, "gpu"),
        ({"gpu": "many"}, "gpu"),
        ({"x": "y" * 9000}, "size"),
    ],
)
def test_a_state_that_lies_about_its_shape_is_garbled(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(MachineProblem) as refused:
        parse_status(json.dumps({**STATE, **changes}).encode())
    assert refused.value.params == {"problem": problem}


@given(st.binary(max_size=300))
def test_nonsense_is_garbled_and_nothing_worse(line: bytes) -> None:
    with pytest.raises(MachineProblem):
        parse_status(line)


def test_deep_nesting_is_garbled() -> None:
    with pytest.raises(MachineProblem):
        parse_status(b"[" * 4000)


FACTS = b"os=Debian 12\narch=x86_64\ncpu_count=2\nmemory_kib=1000\ndisk_free_kib=5\npython=3.11.7\n"


def test_facts_are_read_and_a_containers_limit_holds() -> None:
    facts = parse_facts(FACTS + b"memory_limit=1000\ngpu=81559, 580.95.05, 9.0, NVIDIA H100 80GB HBM3\n")
    assert (facts.cpu_count, facts.memory_bytes, facts.disk_free_bytes) == (2, 1000, 5120)
    assert (facts.gpus[0].name, facts.gpus[0].memory_mib, facts.gpus[0].compute_capability) == (
        "NVIDIA H100 80GB HBM3",
        81559,
        "9.0",
    )


@pytest.mark.parametrize("line", [b"cpu_count=many\n", b"memory_kib=" + b"9" * 30 + b"\n", b"gpu=a,b\n"])
def test_facts_that_make_no_sense_are_garbled(line: bytes) -> None:
    with pytest.raises(MachineProblem):
        parse_facts(FACTS + line)


def test_key_lines_let_in_what_they_say_and_no_more() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").convert_to_public()
    public = key.export_public_key().decode()
    tunnel = options_of(keys.tunnel_line(public, LABEL, base="/var/lib/arrakis/x", port=20001), key)
    assert tunnel["command"] == "/var/lib/arrakis/x/supervisor.sh watch"
    assert tunnel["permitopen"] == {("127.0.0.1", 20001)}
    assert tunnel["no-pty"] is True
    customer = options_of(keys.customer_line(public, LABEL, "k1"), key)
    assert customer == {"environment": {"ARRAKIS_SESSION": f"arrakis:{LABEL}:customer"}}
    assert "no-port-forwarding" in options_of(keys.admin_line(public, LABEL), key)


def options_of(line: str, key: asyncssh.SSHKey) -> dict[str, object]:
    """What a server makes of the line when that key logs in."""
    options = asyncssh.import_authorized_keys(line).validate(key, "127.0.0.1", "127.0.0.1")
    assert options is not None
    return dict(options)
