"""`ImageError`: an image that is not what it should be."""

from __future__ import annotations

from graph_runtime import Code, GraphError


class ImageError(GraphError, ValueError):
    """Bytes that are no image, or an image of a size or format that is not taken.

    The text is fit for the client that sent it. The code is INVALID_ARGUMENT.
    """

    code = Code.INVALID_ARGUMENT
