"""The rows of sizing tables: one model's six modes, each with its smallest configuration at the market's prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from sizing import fit, memory
from sizing.fit import Fit
from sizing.memory import Mode

NAMES: dict[Mode, Promise] = {
    "serve-16": _("16 bits"),
    "serve-8": _("8 bits"),
    "serve-4": _("4 bits"),
    "qlora": _("QLoRA"),
    "lora": _("LoRA"),
    "full": _("Full fine-tuning"),
}


@dataclass(frozen=True)
class Row:
    """One cell of a table; `published` where it is the precision the weights are published in."""

    mode: Mode
    fit: Fit
    published: bool = False

    @property
    def name(self) -> Promise:
        return NAMES[self.mode]


@dataclass(frozen=True)
class Sizing:
    """`params` in billions."""

    params: Decimal
    fits: Mapping[Mode, Fit]
    published: Mode | None = None

    @property
    def serving(self) -> list[Row]:
        return self._rows(memory.SERVING)

    @property
    def tuning(self) -> list[Row]:
        return self._rows(memory.TUNING)

    @property
    def data_params(self) -> str:
        return f"{self.params:f}"

    def _rows(self, modes: Iterable[Mode]) -> list[Row]:
        return [Row(mode, self.fits[mode], mode == self.published) for mode in modes]


def sizing(params_billion: Decimal, gpus: Iterable[fit.Priced], published: Mode | None = None) -> Sizing:
    gpus = list(gpus)
    needs = memory.requirements(params_billion)
    return Sizing(params_billion, {mode: fit.smallest(gb, gpus) for mode, gb in needs.items()}, published)
