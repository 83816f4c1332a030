"""HTML as tests ask it: elements with their attributes and text, by the standard library's parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        raw = "".join(child if isinstance(child, str) else child.text for child in self.children)
        return " ".join(raw.split())

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def walk_text(self) -> Iterator[str]:
        """What is read: not scripts, styles or code."""
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in {"script", "style", "code", "kbd"}:
                yield from child.walk_text()

    def find(self, tag: str = "", **attributes: str | None) -> list[Element]:
        """By tag and attributes; an attribute given as None only has to be there. `data_mode` is `data-mode`."""
        wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
        return [
            it
            for it in self.walk()
            if (not tag or it.tag == tag)
            and all(name in it.attributes and value in (None, it.attributes[name]) for name, value in wanted.items())
        ]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.at = Element("document", {})
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _value in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"an attribute twice on <{tag}> at {self.getpos()}")
        element = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.at.tag != tag or self.at.parent is None:
            self.faults.append(f"</{tag}> closes <{self.at.tag}> at {self.getpos()}")
        else:
            self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def parse(html: str) -> Element:
    """Raises AssertionError for tags that are left open, closed twice or nested wrongly."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert not builder.faults, builder.faults[:5]
    assert builder.at is builder.root, f"<{builder.at.tag}> is left open"
    return builder.root
