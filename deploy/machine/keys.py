"""Public keys as people paste them, and the authorized_keys lines made of them. Pure."""

from __future__ import annotations

import shlex
from typing import Final

import asyncssh
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from deploy.machine.errors import BadPublicKey

MAX_KEY_CHARACTERS: Final = 8192
LEAST_RSA_BITS: Final = 2048
TYPES: Final = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


def normalized(text: str) -> str:
    """`type base64` without comment, or BadPublicKey. Nothing passes that could become a second key or an option."""
    line = text.strip()
    if not line:
        raise BadPublicKey("public_key_invalid", problem="empty")
    if len(line) > MAX_KEY_CHARACTERS or not line.isprintable():
        raise BadPublicKey("public_key_invalid", problem="lines")
    kind, _, rest = line.partition(" ")
    if kind not in TYPES:
        raise BadPublicKey("public_key_invalid", problem="type")
    try:
        key = asyncssh.import_public_key(f"{kind} {rest.split(' ')[0]}")
    except (asyncssh.KeyImportError, ValueError) as error:
        raise BadPublicKey("public_key_invalid", problem="malformed") from error
    if isinstance(key.pyca_key, RSAPublicKey) and key.pyca_key.key_size < LEAST_RSA_BITS:
        raise BadPublicKey("public_key_invalid", problem="weak")
    exported = key.export_public_key().decode().split()
    return " ".join(exported[:2])


def admin_line(public_key: str, label: str) -> str:
    """The workers' key: commands and files, no forwarding of anything."""
    options = "no-agent-forwarding,no-port-forwarding,no-pty,no-X11-forwarding"
    return f"{options} {normalized(public_key)} arrakis:{label}:admin"


def tunnel_line(public_key: str, label: str, *, base: str, port: int) -> str:
    """The tunnel's key: the engine's port, and the state stream as the only command."""
    watch = shlex.quote(f"{base}/supervisor.sh") + " watch"
    quoted = watch.replace("\\", "\\\\").replace('"', '\\"')
    options = (
        f'command="{quoted}",permitopen="127.0.0.1:{port}",no-agent-forwarding,no-pty,no-user-rc,no-X11-forwarding'
    )
    return f"{options} {normalized(public_key)} arrakis:{label}:tunnel"


def customer_line(public_key: str, label: str, key_id: str) -> str:
    """A customer's key. What its sessions start is marked, so that it can be ended when the key is taken away.

    OpenSSH passes the mark on only with PermitUserEnvironment; without that the key works all the same.
    """
    mark = f"arrakis:{label}:customer"
    return f'environment="ARRAKIS_SESSION={mark}" {normalized(public_key)} {mark}:{key_id}'
