"""`manage.py size MODEL`: what a model needs, on which GPUs it fits and what they cost now."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import translation
from django.utils.translation import gettext as _

from arrakis import localize
from catalog.queries import market
from sizing import fit, memory
from sizing.models import HubModel
from sizing.references import NotAReference, Repository, Size, parse


class Command(BaseCommand):
    help = "Tells what a model needs (a repository id or address, a slug, or a size such as 70B) and what that costs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL")
        parser.add_argument("--context", type=int, metavar="N", help="tokens, for the exact plan")
        parser.add_argument("--concurrency", type=int, metavar="N", help="requests at once, for the exact plan")
        parser.add_argument(
            "--lang", default=settings.LANGUAGE_CODE, choices=[code for code, _name in settings.LANGUAGES]
        )
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        with translation.override(options["lang"]):
            name, params = _model(options["model"])
            gpus = market().suggested
            fits = {mode: fit.smallest(gb, gpus) for mode, gb in memory.requirements(memory.billions(params)).items()}
            if options["json"]:
                self.stdout.write(json.dumps(_document(name, params, fits)))
            else:
                self.stdout.write("\n".join(_lines(name, params, fits)))


def _model(text: str) -> tuple[str, int]:
    """The name to show and the parameter count."""
    try:
        reference = parse(text)
    except NotAReference as error:
        raise CommandError(
            _("“%(text)s” names no model: give owner/name, its address on the hub, or a size such as 70B.")
            % {"text": text[:200]}
        ) from error
    if isinstance(reference, Size):
        return text.strip(), int(reference.billions.scaleb(9))
    wanted = {"repo_id__iexact": reference.repo_id} if isinstance(reference, Repository) else {"slug": reference.slug}
    model = HubModel.objects.filter(**wanted).order_by("pk").first()
    if model is None:
        raise CommandError(_("“%(text)s” is not among the models known here.") % {"text": text[:200]})
    return model.repo_id, model.params_total


def _document(name: str, params: int, fits: dict[memory.Mode, fit.Fit]) -> dict[str, Any]:
    modes = {
        mode: {
            "gb": found.data_gb,
            "count": found.count,
            "gpus": [gpu.name for gpu in found.gpus],
            "price": found.data_price or None,
            "rent_price": found.data_rent_price or None,
        }
        for mode, found in fits.items()
    }
    return {"model": name, "params": params, "modes": modes, "plan": None, "reason": "exact_plan_not_available"}


def _lines(name: str, params: int, fits: dict[memory.Mode, fit.Fit]) -> list[str]:
    title = _("%(model)s: %(parameters)s parameters") % {"model": name, "parameters": localize.parameters(params)}
    return [title, *(f"{mode:<9} {localize.memory(found.gb):>12}  {_sentence(found)}" for mode, found in fits.items())]


def _sentence(found: fit.Fit) -> str:
    if found.count is None or found.cheapest is None:
        return _("more than one machine of 8 GPUs")
    said = f"{found.count} x {' / '.join(gpu.name for gpu in found.gpus)}"
    if found.price is None:
        return _("%(gpus)s (none for rent now)") % {"gpus": said}
    said = _("%(gpus)s, from %(price)s") % {"gpus": said, "price": localize.per_hour(found.price)}
    if not found.rent_differs or found.rent_price is None:
        return said
    return _("%(said)s; to rent now: %(price)s") % {"said": said, "price": localize.per_hour(found.rent_price)}
