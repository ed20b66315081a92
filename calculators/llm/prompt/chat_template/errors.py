"""`ChatTemplateError`: every failure to load or render a chat template."""

from __future__ import annotations

import re

from graph_runtime.errors import Code, GraphError

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LONGEST_REASON = 500


class ChatTemplateError(GraphError):
    """The template cannot be loaded, or cannot render this request.

    ``code`` is INVALID_ARGUMENT where the template fails with the request, and FAILED_PRECONDITION
    where the model's files are wrong. The text is one clean line that may go to a client, without
    paths or addresses.

    Attributes:
        param: the field of the request at fault, ``chat_template_kwargs.tools``; None when the
            template gives no hint.
    """

    code = Code.INVALID_ARGUMENT

    def __init__(self, message: str, *, param: str | None = None, code: Code | None = None) -> None:
        super().__init__(message, code=code)
        self.param = param


def clean(text: str) -> str:
    """Return a foreign text as one short line."""
    line = _CONTROL.sub(" ", _ADDRESS.sub("", text[: 4 * _LONGEST_REASON])).strip()
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."
