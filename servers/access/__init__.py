"""Who may ask for what, whichever front is asked: API keys, open routes, certificates.

``api_keys`` and ``tls_files`` read files that an operator may change while the server runs;
``access`` decides by them. No transport here.
"""

from servers.access.access import Access
from servers.access.api_keys import ApiKeys, KeyFileError
from servers.access.tls_files import TlsError, TlsFiles

__all__ = ["Access", "ApiKeys", "KeyFileError", "TlsError", "TlsFiles"]
