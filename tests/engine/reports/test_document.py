"""Documents have the same content in each format, and no text is interpreted as markup."""

import io
import itertools
import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt
from pypdf import PdfReader

from engine.reports.document import html_file, json_file, markdown, model, pdf
from engine.reports.document.formats import FORMATS
from tests.engine.reports.schema import violations

HOSTILE = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[link](javascript:alert) ![p](http://x/y.png)",
    "# no heading",
    "1. no list",
    "`code` $x$ **bold** | cell | ~~~",
    '#import "/etc/passwd" #panic("x") \\ {{x}}',
    "ε ≤ ∞ · σ √ δ “said” …",
    "w" * 400,
)
DOCUMENT = model.Document(
    title=f"Report {HOSTILE[0]}",
    subtitle=HOSTILE[1],
    sections=(
        model.Section(
            HOSTILE[3],
            (
                *map(model.Paragraph, HOSTILE),
                model.Paragraph(HOSTILE[5], warning=True),
                model.Points(HOSTILE),
                model.Facts(HOSTILE[2], tuple(zip(HOSTILE, reversed(HOSTILE), strict=True)), framed=True),
                model.Code(HOSTILE[4], "```\n" + "\n".join(HOSTILE)),
            ),
        ),
        model.Section("Table", (model.Table(HOSTILE[6], HOSTILE[:3], (HOSTILE[:3], HOSTILE[3:6], HOSTILE[6:])),)),
    ),
    written="2026-11-23T05:00+00:00",
    program="Epsilon Explorer <b>",
    figures={"runs": []},
)
ALARMED = replace(DOCUMENT, alarm="NOT PRIVATE <b>: the noise check failed")


class Seen(HTMLParser):
    """Parse the tags with their attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("document", [DOCUMENT, ALARMED])
def test_html_has_no_scripts_and_escapes_every_text(document):
    seen = Seen(html_file.render(document))
    names = {name for name, _ in seen.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "embed", "form", "base", "svg", "b", "a"}
    for _, attributes in seen.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href", "style")]
    for text in (document.title, *HOSTILE):
        assert text in seen.text
    assert ("html", {"lang": "en"}) in seen.tags
    alarms = [attributes for name, attributes in seen.tags if attributes.get("class", "").startswith("alarm")]
    assert len([each for each in alarms if "alarm" in each["class"].split()]) == (2 if document.alarm else 0)
    policy = next(attributes["content"] for name, attributes in seen.tags if "http-equiv" in attributes)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("document", [DOCUMENT, ALARMED])
def test_markdown_escapes_every_text(document):
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown.render(document))
    inner = [each for token in tokens for each in token.children or ()]
    kinds = {token.type for token in (*tokens, *inner)}
    assert not {kind for kind in kinds if kind.startswith(("html", "link", "image", "ordered"))}
    text = squeezed("".join(each.content for each in inner) + "".join(t.content for t in tokens if t.type == "fence"))
    for part in (document.title, *HOSTILE):
        assert squeezed(part) in text
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2"]
    assert text.count(squeezed("NOT PRIVATE <b>")) == (3 if document.alarm else 0)
    cells = [
        squeezed("".join(each.content for each in after.children))
        for token, after in itertools.pairwise(tokens)
        if token.type in ("th_open", "td_open")
    ]
    facts, table = document.sections[0].blocks[-2], document.sections[1].blocks[0]
    expected = (("", ""), *facts.rows, table.columns, *table.rows)
    assert cells == [squeezed(cell) for row in expected for cell in row]
    assert len([token for token in tokens if token.type == "table_open"]) == 2


def test_json_checksum_covers_all_other_fields():
    fields = json.loads(json_file.render(DOCUMENT))
    said = fields.pop("sha256")
    assert said == model.checksum(fields) == DOCUMENT.checksum
    fields["sections"][0]["blocks"][0]["text"] += " "
    assert said != model.checksum(fields)
    assert ALARMED.checksum != said


def test_the_schema_is_valid():
    assert [error.json_path for error in violations(DOCUMENT)] == ["$.figures.runs"]


def roles(node, found):
    """Return the structure types in the tree of a tagged PDF."""
    node = node.get_object() if hasattr(node, "get_object") else node
    if isinstance(node, list):
        for each in node:
            roles(each, found)
    elif isinstance(node, dict):
        if "/S" in node:
            found.append(node["/S"])
        if "/K" in node:
            roles(node["/K"], found)
    return found


def test_pdf_omits_word_joiners():
    said = model.Paragraph("F1 0.85 (95 %: 0.84\u2060\u2013\u20600.86)")
    drawn = pdf.render(replace(DOCUMENT, sections=(model.Section("All", (said,)),)))
    assert "0.84\u20130.86" in "".join(page.extract_text() for page in PdfReader(io.BytesIO(drawn)).pages)


@pytest.mark.parametrize("document", [DOCUMENT, ALARMED])
def test_pdf_is_tagged_reproducible_and_complete(document):
    drawn = pdf.render(document)
    assert drawn == pdf.render(document)
    reader = PdfReader(io.BytesIO(drawn))
    root: Any = reader.trailer["/Root"]
    assert root["/Lang"] == "en"
    assert root["/MarkInfo"]["/Marked"]
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert reader.metadata.title == document.title
    assert b"<pdfuaid:part>1</pdfuaid:part>" in root["/Metadata"].get_data()
    found = roles(root["/StructTreeRoot"]["/K"], [])
    assert {"/H1", "/Table", "/TH", "/TR", "/TD", "/L", "/LI", "/P", "/Code"} <= set(found)
    pages = [squeezed(page.extract_text().replace("\u200b", "")) for page in reader.pages]
    assert len(pages) > 1
    for text in (document.title, *HOSTILE):
        assert squeezed(text)[:60] in "".join(pages)
    assert all((squeezed(ALARMED.alarm) in page) == bool(document.alarm) for page in pages)


class TestAnyLetters:
    def test_missing_glyphs_appear_as_code_points(self):
        strange = "语 \x00 😀 \udcff \u0378 \xad \u202e \ue000"
        document = replace(DOCUMENT, title=strange, sections=(model.Section(strange, (model.Code("c", strange),)),))
        text = squeezed(PdfReader(io.BytesIO(pdf.render(document))).pages[0].extract_text())
        assert text.count("[U+8BED][U+0000][U+1F600][U+DCFF][U+0378][U+00AD][U+202E][U+E000]") >= 3
        for name in ("html", "md"):
            assert "语" in FORMATS[name].draw(document).decode()
        fields = json.loads(FORMATS["json"].draw(document))
        assert fields.pop("sha256") == model.checksum(fields)

    def test_fonts_contain_all_accepted_characters(self):
        every = " ".join(letter for letter in map(chr, range(0x3000)) if pdf._is_supported(letter))
        assert len(every) > 2500
        blocks = (model.Paragraph(every), model.Paragraph(every, warning=True), model.Code("c", every))
        assert pdf.render(replace(DOCUMENT, sections=(model.Section("All", blocks),)))
