"""The design's tokens keep their contrast in both themes, and no template brings a style or script of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

CSS = Path(settings.BASE_DIR) / "arrakis" / "static" / "css"
TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
_TOKEN = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")


def tokens(theme: int) -> dict[str, str]:
    found = {match[1]: match[2 + theme] for match in _TOKEN.finditer((CSS / "tokens.css").read_text())}
    assert len(found) >= 12
    return found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "card", "sand"])
@pytest.mark.parametrize("ink", ["ink", "dim", "spice", "deep", "ok", "warn", "bad"])
def test_text_is_read_on_every_ground(ink: str, ground: str, theme: int) -> None:
    colours = tokens(theme)
    assert contrast(colours[ink], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_buttons_and_edges(theme: int) -> None:
    colours = tokens(theme)
    assert contrast(colours["on-spice"], colours["spice"]) >= 4.5
    assert contrast(colours["paper"], colours["bad"]) >= 4.5
    for ground in ("paper", "card"):
        assert contrast(colours["edge"], colours[ground]) >= 3


@pytest.mark.parametrize("sheet", sorted(CSS.glob("*.css")), ids=lambda path: path.name)
def test_sheets_use_tokens_and_logical_properties(sheet: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.S)
    if sheet.name not in {"tokens.css", "fonts.css"}:
        assert not re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[;,) ])", text)
    physical = (
        r"(?<![-\w])(?:margin|padding|border)-(?:left|right|top|bottom)\b|(?<![-\w])(?:left|right|width|height)\s*:"
    )
    assert not re.findall(physical, re.sub(r"@media[^{]*", "", text))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_brings_its_own_style_or_script(template: Path) -> None:
    text = template.read_text()
    html = re.sub(r"{%.*?%}|{{.*?}}", "", text, flags=re.S)
    assert not re.search(r"<style\b|\sstyle\s*=|\son[a-z]+\s*=|javascript:", html, re.I)
    for attributes, body in re.findall(r"<script\b([^>]*)>(.*?)</script>", text, re.S):
        assert "src=" in attributes
        assert not body.strip()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_translation_of_a_variable(template: Path) -> None:
    for argument in re.findall(r"{%\s*(?:translate|trans)\s+(\S)", template.read_text()):
        assert argument in "\"'"
    for block in re.findall(r"{%\s*blocktrans(?:late)?\b([^%]*)%}", template.read_text()):
        assert "trimmed" in block
