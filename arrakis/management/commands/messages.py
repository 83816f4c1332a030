"""`manage.py messages [--check]`: bring the translation catalogues up to date, or say what is missing in them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arrakis import translations

_SHOWN = 40


class Command(BaseCommand):
    help = "Bring locale/ up to date with the source; with --check say what is missing, fuzzy or out of date."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; fail if anything is missing")

    def handle(self, *args: Any, **options: Any) -> None:
        self._check() if options["check"] else self._update()

    def _update(self) -> None:
        for locale, path in translations.target_catalogues().items():
            catalogue = translations.updated(path, locale)
            translations.write(path, catalogue)
            empty = sum(1 for message in catalogue if message.id and not any(_strings(message.string)))
            self.stdout.write(f"{path}: {len(catalogue)} messages, {empty} to translate.")

    def _check(self) -> None:
        found = [
            problem
            for locale, path in translations.target_catalogues().items()
            for problem in translations.problems(path, locale)
        ]
        if found:
            more = [f"... and {len(found) - _SHOWN} more."] if len(found) > _SHOWN else []
            raise CommandError("\n".join([*found[:_SHOWN], *more, "`make messages` brings the catalogues up to date."]))
        self.stdout.write("Translations are complete.")


def _strings(string: Any) -> tuple[str, ...]:
    return tuple(string) if isinstance(string, (tuple, list)) else (string,)
