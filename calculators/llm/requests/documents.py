"""Documents in requests: files of text become text of the prompt.

Three APIs have three forms for a file: OpenAI's chats ``file``, responses ``input_file``,
Anthropic's messages ``document``. A chat template knows none of them, so the text stands in the
prompt between two tags with the file's name. PDF files are text by then
(`calculators.llm.pdf_files`). What is no text is refused: a model that sees nothing of it would
answer as if it had.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields

_DATA_URL: Final = re.compile(r"data:(?P<type>[^;,]*)(?P<parameters>(?:;[^;,]*)*),", re.IGNORECASE)
#: Kinds of media with bytes that may look like text and are none.
_NO_TEXT: Final = re.compile(r"application/(?:pdf|zip|octet-stream.+)|image/|audio/|video/|font/")


def document_text(text: str, name: str = "") -> str:
    """Return a document as it stands in a prompt."""
    shown = "".join(each if each.isprintable() and each != '"' else " " for each in name)
    head = f'<document name="{shown}">' if shown else "<document>"
    return f"{head}\n{text}\n</document>\n"


def file_text(file: Mapping[str, Any], path: str) -> str:
    """Return a file of OpenAI's APIs, ``{"file_data": ..., "filename": ...}``, for the prompt.

    The data is a ``data:`` URL or plain Base64.

    Raises:
        RequestError: there is no data, or it is no text.
    """
    data = fields.string(file, "file_data", f"{path}.file_data")
    name = fields.string(file, "filename", f"{path}.filename") or ""
    if data is None:
        for other in ("file_id", "file_url"):
            if file.get(other) is not None:
                raise fields.invalid(
                    f"{path}.{other}", "this server does not read it for a prompt; use file_data"
                )
        raise fields.missing(f"{path}.file_data", "the file as Base64 or as a data: URL")
    return document_text(decoded_text(data, "", f"{path}.file_data"), name)


def decoded_text(data: str, media_type: str, path: str) -> str:
    """Return the text of a file that is written in Base64 or as a ``data:`` URL.

    Raises:
        RequestError: it is not written so, or it is no text in UTF-8.
    """
    if (url := _DATA_URL.match(data)) is not None:
        media_type = url["type"] or "text/plain"
        data = data[url.end() :]
        if ";base64" not in url["parameters"].lower():
            from urllib.parse import unquote_to_bytes

            return _utf8(unquote_to_bytes(data), media_type, path)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise fields.invalid(path, "the file is not written in Base64") from None
    return _utf8(content, media_type, path)


def _utf8(content: bytes, media_type: str, path: str) -> str:
    kind = media_type.lower()
    if _NO_TEXT.match(kind) or content.startswith(b"%PDF-"):
        what = kind if kind and not content.startswith(b"%PDF-") else "application/pdf"
        raise fields.invalid(path, f"{what} is not read here; send its text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise fields.invalid(path, "the file is no text in UTF-8")
    return text
