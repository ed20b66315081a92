"""Access control for every front: API keys, open routes, certificates.

``api_keys`` and ``tls_files`` read files that an operator may change while the server runs, which
``changing_files`` follows; ``access`` decides. No transport here.
"""

from servers.access.access import Access
from servers.access.api_keys import ApiKeys, KeyFileError
from servers.access.changing_files import Followed, follow
from servers.access.tls_files import TlsError, TlsFiles

__all__ = ["Access", "ApiKeys", "Followed", "KeyFileError", "TlsError", "TlsFiles", "follow"]
