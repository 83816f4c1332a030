"""`manage.py import_offers FILE.jsonl --provider NAME [--at ISO] [--sample]`: replaces that provider's offers."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from arrakis.clock import now
from catalog import ingest
from catalog.models import Provider
from catalog.sources import jsonl

CLOCK_SKEW = timedelta(minutes=5)
MOST_BYTES = 200_000_000


class Command(BaseCommand):
    help = "Replaces a provider's offers by those of a JSON Lines file; price_per_gpu_hour is what we are charged."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE.jsonl")
        parser.add_argument("--provider", required=True, metavar="NAME", help="made where there is none of that name")
        parser.add_argument("--at", metavar="ISO", help="when they were seen, with its zone; without it, now")
        parser.add_argument("--sample", action="store_true", help="shown as sample data: never stale, never rented")

    def handle(self, *args: Any, **options: Any) -> None:
        at = _moment(options["at"])
        try:
            batch = jsonl.read(_lines(options["file"]), seen_at=at)
        except jsonl.MalformedOffers as error:
            nothing = _("Nothing was imported.")
            raise CommandError("\n".join([*error.problems[:20], *_more(error.problems), nothing])) from error
        with transaction.atomic():
            run = ingest.apply(_provider(options["provider"], sample=options["sample"]), batch)
        self.stdout.write(
            ngettext(
                "%(offers)d offer imported, %(unknown_gpu)d of an unknown GPU; %(gone)d no longer listed.",
                "%(offers)d offers imported, %(unknown_gpu)d of an unknown GPU; %(gone)d no longer listed.",
                run.counts["offers"],
            )
            % run.counts
        )


def _moment(text: str | None) -> datetime:
    present = now()
    if text is None:
        return present
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(_("--at must be a time such as 2026-10-31T17:40:00Z.")) from error
    if moment.tzinfo is None:
        raise CommandError(_("--at must name its zone, such as 2026-10-31T17:40:00Z."))
    if moment > present + CLOCK_SKEW:
        raise CommandError(_("--at is in the future."))
    return moment


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CommandError(_("%(file)s is too large.") % {"file": path})
        return path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise CommandError(_("%(file)s cannot be read: %(why)s.") % {"file": path, "why": error.strerror}) from error
    except UnicodeDecodeError as error:
        raise CommandError(_("%(file)s is not UTF-8 text.") % {"file": path}) from error


def _provider(name: str, *, sample: bool) -> Provider:
    key = slugify(name)[:40]
    if not key:
        raise CommandError(_("--provider must have a letter or a digit."))
    provider, made = Provider.objects.get_or_create(key=key, defaults={"name": name[:80], "is_sample": sample})
    if not made and sample and not provider.is_sample:
        raise CommandError(_("%(name)s is there already and is not sample data.") % {"name": name})
    return provider


def _more(problems: list[str]) -> list[str]:
    rest = len(problems) - 20
    return [_("...and %(rest)d more.") % {"rest": rest}] if rest > 0 else []
