"""The server's own OpenAPI document: every route, what it takes, and everything it may answer.

`document` puts it together once, when a server starts; there is a file for each API, which says its
operations and schemas. Limits and lists of words are read from where they are checked.
"""

from servers.fronts.openapi.document import openapi_document

__all__ = ["openapi_document"]
