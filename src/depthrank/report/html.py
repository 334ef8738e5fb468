"""Pieces of a page. Whatever comes from data or users passes through `text` and is escaped."""

import html
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def text(value: Any) -> str:
    """Escape anything for use as text or as a quoted attribute."""
    return html.escape(str(value), quote=True)


def document(title: str, body: Iterable[str], footer: str) -> str:
    """Return a whole page that needs nothing beside itself."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # No page of ours needs a script or the network; a browser need not allow them.
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "img-src data:; style-src 'unsafe-inline'\">",
            f"<title>{text(title)}</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            *body,
            f"<footer>{text(footer)}</footer>",
            "</body>",
            "</html>",
            "",
        ]
    )


def header(title: str, sentences: Sequence[str]) -> str:
    """Return the head of a page: its title and what came out, in a sentence or two."""
    said = "".join(f"<p>{text(sentence)}</p>" for sentence in sentences)
    return f"<header><h1>{text(title)}</h1>{said}</header>"


def section(title: str, *parts: str) -> str:
    """Return a titled section; empty parts are left out."""
    return f"<section><h2>{text(title)}</h2>\n" + "\n".join(filter(None, parts)) + "</section>"


def paragraph(sentence: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{text(sentence)}</p>"


def cards(items: Sequence[tuple[str, str]], best: str | None = None) -> str:
    """Return a row of large figures with their names; `best` names one to set off."""
    cells = [
        f"<div{' class=best' if name == best else ''}><dt>{text(name)}</dt>"
        f"<dd>{text(value)}</dd></div>"
        for name, value in items
    ]
    return f'<dl class="cards">{"".join(cells)}</dl>'


def warnings(sentences: Sequence[str]) -> str:
    """Return warnings, each set off."""
    return "\n".join(f'<p class="warning">{text(sentence)}</p>' for sentence in sentences)


def table(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Return a table whose first column names the rows."""
    top = "".join(f"<th>{text(name)}</th>" for name in head)
    lines = [
        f"<tr><th>{text(first)}</th>{''.join(f'<td>{text(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    ]
    thead = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<div class="wide"><table>{thead}<tbody>{"".join(lines)}</tbody></table></div>'


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Return names with their values, in as many columns as there is room for."""
    entries = [
        f"<div{' class=long' if len(value) > 40 else ''}><dt>{text(name)}</dt>"
        f"<dd>{text(value)}</dd></div>"
        for name, value in rows
    ]
    return f'<dl class="facts">{"".join(entries)}</dl>'


def code(lines: str) -> str:
    """Return preformatted text."""
    return f"<pre>{text(lines)}</pre>"


def picture(figure: "Figure", caption: str, form: str = "png") -> str:
    """Return a figure with its caption, the picture inside the page."""
    from depthrank.report.figures import encode

    kind = {"png": "image/png", "svg": "image/svg+xml"}[form]
    data = b64encode(encode(figure, form)).decode("ascii")
    return (
        f'<figure><img alt="{text(caption)}" src="data:{kind};base64,{data}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
