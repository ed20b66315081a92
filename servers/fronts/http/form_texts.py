"""The texts of a form that the front reads itself, as JSON would have them."""

from __future__ import annotations

from typing import Any

from calculators.kit.requests.form_members import NOTHING
from calculators.kit.requests.multipart_form import MultipartForm
from servers.fronts.http.deadline import TIMEOUT
from servers.fronts.http.errors import HttpError

_TRUTHS = {"true": True, "false": False}


def front_members(form: MultipartForm) -> dict[str, Any]:
    """Return model, stream and timeout; an empty stream or timeout, or one of "null", is absent.

    A text that is no boolean or number stays one, for the error.

    Raises:
        HttpError: 400, one occurs twice or is a file.
    """
    members: dict[str, Any] = {}
    for name in ("model", "stream", TIMEOUT):
        texts = form.fields.get(name, [])
        if name in form.files:
            raise HttpError(400, f"{name} must be a text of the form, not a file", param=name)
        if len(texts) > 1:
            raise HttpError(400, f"the form has {name} {len(texts)} times", param=name)
        if texts:
            members[name] = texts[0]
    stream = members.get("stream")
    if stream is not None:
        text = stream.strip().lower()
        members["stream"] = None if text in NOTHING else _TRUTHS.get(text, stream)
    timeout = members.get(TIMEOUT)
    if timeout is not None:
        members[TIMEOUT] = _number(timeout)
    return members


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return None if text.strip().lower() in NOTHING else text
