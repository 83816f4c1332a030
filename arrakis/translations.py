"""The catalogues in `locale/`: what the source says that must be translated, and whether it is. No gettext needed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po
from django.conf import settings
from django.utils.translation.template import templatize

PACKAGES = ("arrakis", "catalog", "sizing", "deploy")
KEYWORDS = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
_PLACEHOLDER = re.compile(r"%\((\w+)\)[a-z]|\{(\w*)[^{}]*\}|%[sd]")


def target_catalogues() -> dict[str, Path]:
    """Locale name (`pt_BR`) -> its file, for every published language but the source's."""
    names = [code for code, _name in settings.LANGUAGES if code != "en"]
    locales = ["_".join([code.split("-")[0], *(part.upper() for part in code.split("-")[1:])]) for code in names]
    return {name: Path(settings.BASE_DIR) / "locale" / name / "LC_MESSAGES" / "django.po" for name in locales}


def source_messages() -> Catalog:
    """Every message of the Python source and the templates, with the notes for translators."""
    found = Catalog()
    for path in _sources():
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            text = _as_python(text, path)
        lines = io.BytesIO(text.encode())
        for _line, message, comments, context in extract("python", lines, KEYWORDS, ["Translators:"]):
            if message and message != ("", ""):
                found.add(message, auto_comments=comments, context=context)
    return found


def read(path: Path, locale: str) -> Catalog:
    if not path.exists():
        return Catalog(locale=locale)
    with path.open("rb") as file:
        return read_po(file, locale=locale)


def updated(path: Path, locale: str) -> Catalog:
    """The catalogue with what the source now says: new messages empty, those gone dropped, nothing guessed."""
    catalogue = read(path, locale)
    catalogue.update(source_messages(), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    return catalogue


def write(path: Path, catalogue: Catalog) -> None:
    """Sorted, and without dates and line numbers, so that a change shows only what changed."""
    body = io.BytesIO()
    write_po(body, catalogue, width=100, no_location=True, omit_header=True, sort_output=True, ignore_obsolete=True)
    header = (
        'msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n'
        f'"Content-Transfer-Encoding: 8bit\\n"\n"Language: {catalogue.locale_identifier}\\n"\n'
        f'"Plural-Forms: {catalogue.plural_forms}\\n"\n\n'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header.encode() + body.getvalue())


def problems(path: Path, locale: str) -> Iterator[str]:
    """What keeps this catalogue from being complete, one sentence each."""
    have, want = read(path, locale), source_messages()
    wanted = {_key(message) for message in want if message.id}
    known = {_key(message): message for message in have if message.id}
    for key in sorted(wanted - known.keys(), key=str):
        yield f"{locale}: not in the catalogue: {_shown(key)}"
    for key in sorted(known.keys() - wanted, key=str):
        yield f"{locale}: no longer in the source: {_shown(key)}"
    for key, message in known.items():
        if key in wanted and (problem := _problem(message)):
            yield f"{locale}: {problem}: {_shown(key)}"


def _problem(message: Message) -> str:
    strings = message.string if isinstance(message.string, (tuple, list)) else (message.string,)
    if not all(strings):
        return "not translated"
    if message.fuzzy:
        return "fuzzy"
    sources = message.id if isinstance(message.id, (tuple, list)) else (message.id,)
    allowed = {match.group() for text in sources for match in _PLACEHOLDER.finditer(text)}
    needed = {match.group() for match in _PLACEHOLDER.finditer(sources[-1])}
    for text in strings:
        used = {match.group() for match in _PLACEHOLDER.finditer(str(text))}
        if used - allowed or (len(strings) == 1 and needed - used):
            return "its placeholders are not the source's"
    return ""


def _key(message: Message) -> tuple[str | None, str]:
    """What gettext looks a message up by: a plural by its singular."""
    return message.context, message.id[0] if isinstance(message.id, (tuple, list)) else message.id


def _shown(key: tuple[str | None, str]) -> str:
    context, text = key
    return f"[{context}] {text!r}" if context else repr(text)


def _sources() -> Iterator[Path]:
    root = Path(settings.BASE_DIR)
    for package in PACKAGES:
        yield from sorted(path for path in (root / package).rglob("*.py") if "migrations" not in path.parts)
        yield from sorted((root / package).rglob("templates/**/*.html"))
    yield from sorted((root / "templates").rglob("*.html"))


def _as_python(text: str, path: Path) -> str:
    """The template with all but its messages blanked out, flush left: Python's tokenizer minds indentation."""
    blanked: str = templatize(text, origin=str(path))
    return "\n".join(line.lstrip() for line in blanked.splitlines())
