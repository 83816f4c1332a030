"""What the gateway refuses, in the shape OpenAI's clients understand: {"error": {message, type, param, code}}.

The status decides which exception the official clients raise and whether they try again by themselves (they do for
408, 409, 429 and 5xx, unless `x-should-retry: false`), so each is chosen for what the caller should do next:

401 AuthenticationError    the key is wrong, revoked, expired: nothing to try again
403 PermissionDeniedError  the key is right, but not from there; or the workspace is frozen
404 NotFoundError          no such model here. A stopped deployment is one of these, as a model that OpenAI retired is:
                           409 and 503 would be retried for nothing, and 410 has no class of its own
429 RateLimitError         too much at once; and an empty balance, which OpenAI says as 429 insufficient_quota and which
                           programs look for under that code (402 has no class), with retries switched off
503 InternalServerError    not ready yet, or the machine is not reached: worth trying again after Retry-After
502, 504                   the engine answered nonsense, or nothing
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

INVALID: Final = "invalid_request_error"
SERVER: Final = "server_error"
RETRY_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """`retry_after` in seconds asks clients to come back; `final` tells them not to try again by themselves."""

    status: int
    type: str
    message: Promise | str
    param: str | None = None
    retry_after: int | None = None
    final: bool = False


KINDS: Final = {
    "bad_gateway": Kind(502, SERVER, _("The engine gave an answer that cannot be passed on."), final=True),
    "body_too_complex": Kind(413, INVALID, _("The request holds more than %(most)d values.")),
    "body_too_large": Kind(413, INVALID, _("The request is larger than %(most_mib)d MiB.")),
    "context_length_exceeded": Kind(400, INVALID, "%(message)s", param="messages"),
    "deployment_failed": Kind(404, INVALID, _("The deployment of %(model)s has failed and serves nothing.")),
    "deployment_not_ready": Kind(
        503,
        SERVER,
        _("The deployment of %(model)s is not ready yet; its stage is: %(stage)s."),
        retry_after=RETRY_SECONDS,
    ),
    "deployment_stopped": Kind(404, INVALID, _("The deployment of %(model)s is stopped. Start one in the console.")),
    "engine_error": Kind(500, SERVER, "%(message)s"),
    "engine_timeout": Kind(504, SERVER, _("The engine did not answer in time."), final=True),
    "engine_unreachable": Kind(
        503, SERVER, _("The machine that serves %(model)s is not reached at the moment."), retry_after=RETRY_SECONDS
    ),
    "insufficient_quota": Kind(
        429,
        "insufficient_quota",
        _("The balance is empty, so the deployment of %(model)s was stopped. Add credit, then start it again."),
        final=True,
    ),
    "internal_error": Kind(500, SERVER, _("Something went wrong here. The request id helps us find it.")),
    "invalid_api_key": Kind(401, INVALID, _("The API key is not known here.")),
    "invalid_json": Kind(400, INVALID, _("The body is not valid JSON: %(problem)s.")),
    "invalid_request": Kind(400, INVALID, "%(message)s"),
    "ip_not_allowed": Kind(403, INVALID, _("This key may not be used from this address.")),
    "key_disabled": Kind(401, INVALID, _("The API key is switched off.")),
    "key_expired": Kind(401, INVALID, _("The API key has expired.")),
    "key_revoked": Kind(401, INVALID, _("The API key was revoked.")),
    "method_not_allowed": Kind(405, INVALID, _("This address takes %(allowed)s only.")),
    "missing_api_key": Kind(
        401, INVALID, _("No API key was sent. Send it as a Bearer token in the Authorization header, or in x-api-key.")
    ),
    "model_invalid": Kind(400, INVALID, _("“model” must be text."), param="model"),
    "model_not_found": Kind(
        404, INVALID, _("The model “%(model)s” is not served to this key. It may use: %(available)s."), param="model"
    ),
    "no_model": Kind(404, INVALID, _("The model “%(model)s” is not served to this key, nor is any other."), "model"),
    "not_found": Kind(404, INVALID, _("There is nothing at this address.")),
    "overloaded": Kind(503, SERVER, _("The gateway is full at the moment."), retry_after=2),
    "rate_limit_exceeded": Kind(429, "rate_limit_error", "%(message)s", retry_after=2),
    "request_timeout": Kind(408, INVALID, _("The request did not arrive in time."), final=True),
    "stream_broken": Kind(502, SERVER, _("The engine broke off in the middle of its answer.")),
    "too_many_requests": Kind(
        429, "rate_limit_error", _("More than %(most)d requests at once with one key."), retry_after=2
    ),
    "try_later": Kind(503, SERVER, _("The key cannot be checked at the moment."), retry_after=2),
    "unsupported_by_engine": Kind(400, INVALID, "%(message)s"),
    "unsupported_encoding": Kind(415, INVALID, _("Send the body without Content-Encoding.")),
    "workspace_frozen": Kind(403, INVALID, _("This workspace is frozen. Please write to support.")),
}
NOT_MODEL_CODES: Final = {"no_model": "model_not_found", "too_many_requests": "rate_limit_exceeded"}


class Refused(Exception):
    """The gateway answers with an error. `code` is a row of KINDS; `status` may be the engine's own."""

    def __init__(self, code: str, *, status: int | None = None, retry_after: int | None = None, **params: Any) -> None:
        super().__init__(code)
        kind = KINDS[code]
        self.code, self.params, self.kind = code, params, kind
        self.status = status or kind.status
        self.retry_after = retry_after or kind.retry_after

    def body(self, language: str = "en") -> bytes:
        """The JSON that is sent; the sentence in `language` where it is translated."""
        with translation.override(language):
            message = str(self.kind.message) % self.params
        code = NOT_MODEL_CODES.get(self.code, self.code)
        error = {"message": message, "type": self.kind.type, "param": self.kind.param, "code": code}
        return json.dumps({"error": error}).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = []
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if self.kind.final:
            headers.append((b"x-should-retry", b"false"))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if stage := self.params.get("stage"):
            headers.append((b"x-deployment-stage", str(stage).encode("ascii", "replace")))
        if allowed := self.params.get("allowed"):
            headers.append((b"allow", str(allowed).encode("ascii", "replace")))
        return headers


def shorten(text: str, most: int = 200) -> str:
    """Text of somebody else's, fit to be shown: printable, on one line, cut."""
    clean = "".join(c if c.isprintable() else " " for c in text[: most * 2])
    clean = " ".join(clean.split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"
