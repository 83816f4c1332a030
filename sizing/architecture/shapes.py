"""What a plan must know of a model's layers, and the refusal where it cannot be known. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal["config_missing", "config_incomplete", "architecture_unknown"]


class NotUnderstood(ValueError):
    """An architecture that is refused and never guessed: the code says why, `detail` names the field or type."""

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code: Code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Cache:
    """Layers of one kind that keep something of each token.

    `key` and `value` are numbers kept per token and head. A latent cache (MLA) has one head and no values: it is
    whole on each rank. `window` caps the tokens that are kept. `index_bytes` are those of a sparse indexer, per token
    and layer, whole on each rank. A `fixed` cache (cross-attention) has `window` tokens whatever the context.
    """

    layers: int
    heads: int
    key: int
    value: int
    window: int | None = None
    is_latent: bool = False
    is_fixed: bool = False
    index_bytes: int = 0

    def tokens(self, context: int, ahead: int = 0) -> int:
        """How many tokens of one request it keeps; a window also holds the `ahead` tokens of the pass in work."""
        if self.is_fixed:
            return self.window or 0
        return context if self.window is None else min(context, self.window + ahead)

    def heads_per_rank(self, ranks: int) -> int:
        """A head that cannot be split is repeated: with more ranks than heads each holds one."""
        return 1 if self.is_latent else max(1, -(-self.heads // ranks))


@dataclass(frozen=True, slots=True)
class State:
    """Layers that keep a state per sequence, of constant size: `conv` and `recurrent` numbers a layer."""

    layers: int
    conv: int
    recurrent: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Layers, heads and widths of the language model. `replicated` parameters are whole on each tensor-parallel rank.

    `kv_weights` are the parameters of the key and value projections, which are repeated where ranks outnumber heads.
    `ffn` is the widest feed-forward layer that one token passes.
    """

    model_type: str
    layers: int
    hidden: int
    heads: int
    vocab: int
    ffn: int
    caches: tuple[Cache, ...]
    states: tuple[State, ...] = ()
    experts: int | None = None
    experts_per_token: int | None = None
    context: int | None = None
    is_tied: bool = False
    replicated: int = 0
    kv_weights: int = 0
    group_size: int | None = None
    expert_ffn: int | None = None

    @property
    def kv_heads(self) -> int:
        """The most key-value heads of any layer that splits; 0 where none does."""
        return max((cache.heads for cache in self.caches if not cache.is_latent), default=0)

    @property
    def embedding(self) -> int:
        """Parameters of the token table and, where it is not the same, of the output head."""
        return self.vocab * self.hidden * (1 if self.is_tied else 2)
