"""Public SSH keys as people paste them: read strictly, since they end up in an `authorized_keys` file. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import asyncssh

from arrakis.errors import BadRequest

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
LEAST_RSA_BITS: Final = 2048
LONGEST: Final = 8192


@dataclass(frozen=True)
class PublicKey:
    """`line` is `type base64`, nothing else: no options, no comment, no line break."""

    line: str
    fingerprint: str
    comment: str


def parse(text: str) -> PublicKey:
    """One OpenSSH public key.

    Raises BadRequest: ssh_key_private (a private key was pasted), ssh_key_type (not a type we take; options in front
    of the key are refused so), ssh_key_invalid (cut off, several lines), ssh_key_weak (params: bits, least).
    """
    text = text.strip()
    if "PRIVATE KEY" in text:
        raise BadRequest("ssh_key_private")
    words = text.split(None, 2)
    if len(text) > LONGEST or not text.isprintable() or len(words) < 2:
        raise BadRequest("ssh_key_invalid")
    if words[0] not in TYPES:
        raise BadRequest("ssh_key_type")
    line = f"{words[0]} {words[1]}"
    try:
        key = asyncssh.import_public_key(line)
    except (asyncssh.KeyImportError, ValueError) as error:
        raise BadRequest("ssh_key_invalid") from error
    if key.get_algorithm() != words[0]:
        raise BadRequest("ssh_key_invalid")
    bits = getattr(getattr(key, "pyca_key", None), "key_size", LEAST_RSA_BITS)
    if words[0] == "ssh-rsa" and bits < LEAST_RSA_BITS:
        raise BadRequest("ssh_key_weak", bits=bits, least=LEAST_RSA_BITS)
    return PublicKey(line, key.get_fingerprint("sha256"), words[2].strip()[:120] if len(words) > 2 else "")
