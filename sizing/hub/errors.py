"""What can stand between a model's name and its facts, and whose fault each is. Codes are rendered by sentences.

Customer: hub_not_found (missing, or private and not shown to us), hub_gated, hub_token_refused, hub_disabled,
hub_revision_not_found, hub_file_not_found, model_empty, model_malformed, model_too_large, model_kind_not_sized,
model_quantization_unknown, adapter_base_unknown. Provider: hub_down, hub_slow, hub_busy, hub_answer_malformed.
"""

from __future__ import annotations

from arrakis.errors import BadRequest, Forbidden, NotFound, Unavailable


class Missing(NotFound):
    """The hub has no such thing, or does not show it to us. Params: repo; revision or path where one was asked."""


class Closed(Forbidden):
    """The hub keeps it: gated without leave, disabled, or asked with a token it does not know. Params: repo."""


class Unsizeable(BadRequest):
    """It was read, and cannot be sized. Params: repo; path, kind or method where one is to blame."""

    status = 422


class HubUnavailable(Unavailable):
    """The hub did not answer as it should. Params: repo; seconds where it named a time to wait."""
