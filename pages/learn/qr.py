"""QR codes of links for phone cameras. Without Streamlit."""

import html

import segno


def image(link: str) -> str:
    """Return an HTML image with the QR code of a link (ISO/IEC 18004, error correction M).

    The code is black on white in both themes, with the quiet zone of four modules that cameras need.
    """
    code = segno.make(link, error="m", micro=False, boost_error=False)
    source = code.svg_data_uri(scale=8, border=4, dark="#000", light="#fff", omitsize=True)
    description = html.escape(f"QR code of {link}", quote=True)
    return f'<img class="qr" src="{html.escape(source, quote=True)}" alt="{description}">'
