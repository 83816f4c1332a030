"""The few error types, and whose fault each is.

ArrakisError              code, params, fault: a stored reason, rendered for its reader (deploy.reasons)
+- BadRequest             the customer asked for something that cannot be; nothing was changed
|  +- Forbidden           ...that their role does not permit
|  +- NotFound            ...of something that is not theirs or not there
|  +- Conflict            ...that is no longer so (a price changed, a state moved on)
|  +- InsufficientBalance ...that the balance does not cover
+- Unavailable            somebody else's system did not answer; trying again later may help
"""

from __future__ import annotations

from typing import Any, Literal

Fault = Literal["provider", "platform", "customer"]


class ArrakisError(Exception):
    """`code` is stable and stored; `params` are JSON values; the sentence is made for the reader, never stored."""

    fault: Fault = "platform"
    status = 500

    def __init__(self, code: str, *, fault: Fault | None = None, **params: Any) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params
        if fault is not None:
            self.fault = fault

    def __str__(self) -> str:
        return f"{self.code} {self.params}" if self.params else self.code


class BadRequest(ArrakisError):
    fault: Fault = "customer"
    status = 400


class Forbidden(BadRequest):
    status = 403


class NotFound(BadRequest):
    status = 404


class Conflict(BadRequest):
    status = 409


class InsufficientBalance(BadRequest):
    status = 402


class Unavailable(ArrakisError):
    fault: Fault = "provider"
    status = 503
