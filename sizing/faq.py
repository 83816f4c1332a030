"""Questions people ask, answered with the figures of the tables beside them. Plain text, for pages and machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from arrakis import localize
from catalog.queries import GpuPrice, Market
from sizing import memory, wording
from sizing.models import HubModel
from sizing.tables import NAMES, Sizing


@dataclass(frozen=True)
class Question:
    question: str
    answer: Sequence[str]


def structured(questions: Sequence[Question]) -> dict[str, Any]:
    """For search engines: schema.org's FAQPage."""
    return {
        "@context": "https://schema.org",
        "@type": "FAQPage",
        "mainEntity": [
            {
                "@type": "Question",
                "name": it.question,
                "acceptedAnswer": {"@type": "Answer", "text": " ".join(it.answer)},
            }
            for it in questions
        ],
    }


def paying() -> str:
    return _("Prices are per hour and charged by the second, from a prepaid balance. What you do not use stays yours.")


def of_model(model: HubModel, sizing: Sizing) -> list[Question]:
    name = model.name
    return [
        Question(_("How much GPU memory does %(model)s need?") % {"model": name}, [_memory(model, sizing)]),
        Question(_("Does %(model)s run on one GPU?") % {"model": name}, [_one_gpu(sizing)]),
        Question(_("What does it cost to run %(model)s?") % {"model": name}, [_cost(sizing), paying()]),
        Question(
            _("How do I deploy %(model)s?") % {"model": name},
            [
                _(
                    "Open Models in the console and paste %(repo)s, choose an engine and a GPU it fits on. Minutes "
                    "later you have an OpenAI-compatible endpoint with its own key, and root SSH to the machine."
                )
                % {"repo": model.repo_id}
            ],
        ),
    ]


def of_guide(market: Market, seventy: Sizing, eight: Sizing) -> list[Question]:
    return [
        Question(_("How much GPU memory does a 70B model need?"), [_seventy(seventy)]),
        Question(_("Can a 70B model run on one GPU?"), _holders(seventy, market.suggested)),
        Question(_("Can an 8B model be fine-tuned on an RTX 4090?"), [_eight(eight, market)]),
        Question(
            _("Why does fine-tuning take more memory than serving?"),
            [
                _(
                    "Serving keeps the weights and a cache. Full fine-tuning with Adam in mixed precision also keeps a "
                    "gradient and three 32-bit numbers for each parameter, a copy of it and Adam's two states: 16 "
                    "bytes a parameter (ZeRO, arXiv:1910.02054)."
                ),
                _(
                    "LoRA (arXiv:2106.09685) trains small matrices beside frozen weights, and QLoRA (arXiv:2305.14314) "
                    "holds those weights in 4 bits, which is why a 65B model was fine-tuned on one 48 GB GPU."
                ),
            ],
        ),
        Question(_("What does renting these GPUs cost?"), [*_market(market), paying()]),
    ]


def _figures(sizing: Sizing) -> dict[str, str]:
    return {
        "margin": localize.percent(memory.SERVING_MARGIN - 1),
        "b16": localize.memory(sizing.fits["serve-16"].gb),
        "b8": localize.memory(sizing.fits["serve-8"].gb),
        "b4": localize.memory(sizing.fits["serve-4"].gb),
        "qlora": localize.memory(sizing.fits["qlora"].gb),
        "lora": localize.memory(sizing.fits["lora"].gb),
        "full": localize.memory(sizing.fits["full"].gb),
    }


def _memory(model: HubModel, sizing: Sizing) -> str:
    said = _(
        "To serve it, about %(b16)s in 16 bits, %(b8)s in 8 bits or %(b4)s in 4 bits. To fine-tune it, about %(qlora)s "
        "with QLoRA, %(lora)s with LoRA or %(full)s in full."
    )
    return said % _figures(sizing)


def _one_gpu(sizing: Sizing) -> str:
    fit = sizing.fits["serve-4"]
    if fit.count == 1:
        said = _("Yes: in 4 bits it needs %(gb)s and fits on one GPU: %(gpus)s.")
        return said % {"gb": localize.memory(fit.gb), "gpus": wording.configuration(fit)}
    if fit.count is None:
        said = _("No: even in 4 bits it needs %(gb)s, more than one machine of eight GPUs holds.")
        return said % {"gb": localize.memory(fit.gb)}
    said = _("No: even in 4 bits it needs %(gb)s, so the smallest configuration is %(configuration)s.")
    return said % {"gb": localize.memory(fit.gb), "configuration": wording.configuration(fit)}


def _cost(sizing: Sizing) -> str:
    parts = [
        _("in %(precision)s: %(fit)s") % {"precision": NAMES[mode], "fit": wording.sentence(sizing.fits[mode])}
        for mode in memory.SERVING
    ]
    return _("At the lowest live prices, %(list)s.") % {"list": "; ".join(parts)}


def _seventy(sizing: Sizing) -> str:
    said = _(
        "To serve it, about %(b16)s in 16 bits, %(b8)s in 8 bits and %(b4)s in 4 bits; the %(margin)s for the KV cache "
        "and activations is in. To fine-tune it, %(qlora)s with QLoRA, %(lora)s with LoRA and %(full)s in full."
    )
    return said % _figures(sizing)


def _holders(sizing: Sizing, gpus: Sequence[GpuPrice]) -> list[str]:
    said = []
    for mode in memory.SERVING:
        fit = sizing.fits[mode]
        holders = [gpu.name for gpu in gpus if gpu.memory_gb >= fit.gb]
        named = {"precision": NAMES[mode], "gb": localize.memory(fit.gb), "gpus": wording.any_of(holders)}
        if holders:
            said.append(_("In %(precision)s it needs %(gb)s: yes, on one %(gpus)s.") % named)
        else:
            said.append(_("In %(precision)s it needs %(gb)s: no single GPU listed here holds that.") % named)
    return said


def _eight(sizing: Sizing, market: Market) -> str:
    gpu = market.gpu("rtx-4090")
    held = localize.gpu_memory(gpu.memory_gb if gpu else Decimal(24))
    said = _(
        "With QLoRA (%(qlora)s) and, with small batches, with LoRA (%(lora)s), yes: it has %(held)s. In full it takes "
        "%(full)s, so no."
    )
    return said % {**_figures(sizing), "held": held}


def _market(market: Market) -> list[str]:
    said = []
    if market.seen_at:
        counts = {
            "moment": localize.moment(market.seen_at),
            "gpus": localize.number(market.gpu_total),
            "machines": localize.number(market.machine_total),
        }
        said.append(_("On %(moment)s there were %(gpus)s GPUs on %(machines)s machines.") % counts)
    for key in ("h100", "rtx-4090"):
        gpu = market.gpu(key)
        if gpu and gpu.price is not None:
            named = {"gpu": gpu.name, "price": localize.per_gpu_hour(gpu.price)}
            said.append(_("The lowest price of an %(gpu)s is %(price)s.") % named)
    return said or [_("There are no live prices right now.")]
