"""What can go wrong on a machine.

MachineError            every one of them; `code` is stored, `fault` says who pays
+- HostUnreachable      nothing answered, or it stopped answering: try again, then blame the provider
+- HostKeyChanged       another machine answers at that address: never continue
+- LoginRefused         the machine answers and does not know our key
+- CommandFailed        a command of ours ended with a status other than 0, or did not end in time
+- MachineProblem       the machine said something we do not accept (garbled state, no Python, disk full...)
BadPublicKey            the customer's key is not one line of a known type
"""

from __future__ import annotations

from arrakis.errors import ArrakisError, BadRequest, Fault


class MachineError(ArrakisError):
    fault: Fault = "provider"


class HostUnreachable(MachineError):
    """`code`: host_unreachable (nothing there), host_timeout (no answer in time), host_lost (cut while working)."""


class HostKeyChanged(MachineError):
    """`code`: host_key_changed; params: fingerprint, the one that was expected."""


class LoginRefused(MachineError):
    """`code`: login_refused."""


class CommandFailed(MachineError):
    """`code`: command_failed; params: verb, exit_code, detail (cleaned and cut, from the machine: untrusted)."""


class MachineProblem(MachineError):
    """`code` names the problem: status_garbled, python_missing, no_base, disk_full..."""


class BadPublicKey(BadRequest):
    """`code`: public_key_invalid; params: problem (empty | lines | type | malformed | weak)."""
