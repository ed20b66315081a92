"""`ImageError`: an image that cannot be used."""

from __future__ import annotations

from graph_runtime import Code, GraphError


class ImageError(GraphError, ValueError):
    """The bytes are not an image, or the image has an unsupported size or format.

    The text may be sent to the client. The code is INVALID_ARGUMENT.
    """

    code = Code.INVALID_ARGUMENT
