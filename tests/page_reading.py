"""Content of a page for a reader or a screen reader, by the parser of the standard library."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        own = [child for child in self.children if isinstance(child, Element)]
        return [e for child in own for e in ([child] if child.tag == tag else []) + child.all(tag)]

    @property
    def everything(self) -> list["Element"]:
        own = [child for child in self.children if isinstance(child, Element)]
        return [e for child in own for e in (child, *child.everything)]

    @property
    def text(self) -> str:
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), f"<{tag}> repeats an attribute"
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parsed(page: str) -> Element:
    """The page as a tree; a tag that is not closed, or closed twice, fails."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert builder.open == [builder.root]
    return builder.root
