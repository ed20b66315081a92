"""The files of TLS on both fronts: certificate, private key, authorities of clients."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from calculators.kit.seen_files import SeenFiles
from graphrt_base.regular_file import DescriptorsExhaustedError
from servers.access.changing_files import is_open_to_others

#: Bytes of a file of certificates; bundles of authorities have some 200 KB.
MAX_BYTES: Final = 4 * 1024 * 1024

#: The names of the protocols in ALPN.
_HTTP: Final = "http/1.1"
_GRPC: Final = "h2"
_PROTOCOLS: Final = (_HTTP, _GRPC)

_log: Final = logging.getLogger(__name__)


class TlsError(Exception):
    """A file cannot be used for TLS; the text names it and says why."""


class TlsFiles:
    """The checked contents of PEM files. New connections use a renewed certificate.

    Attributes:
        client_ca: the certificates that clients' certificates must be signed with; None: clients
            need none. The file is read once.
        context, grpc_context: for listening sockets, TLS 1.2 and later; each handshake takes the
            certificate that was read last.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        client_ca: Path | None = None,
    ) -> None:
        """``certificate``: the file of the server's certificate, followed by its chain.

        Raises:
            TlsError: a file cannot be read, or is not what it should be.
        """
        self.client_ca = client_ca
        self._certificate = certificate
        self._key = key
        #: Certificate and key as they were last read.
        self._seen = SeenFiles()
        #: What is wrong with them as they are now; "" if nothing is.
        self._problem = ""
        self._authorities = None if client_ca is None else _content(client_ca, SeenFiles())
        self._newest, self._pair = self._read(self._seen)
        self.context, self.grpc_context = (self._newest[protocol] for protocol in _PROTOCOLS)
        self.context.sni_callback = partial(self._use_newest, _HTTP)
        self.grpc_context.sni_callback = partial(self._use_newest, _GRPC)

    @property
    def owner(self) -> str:
        """See `servers.access.changing_files.Followed`."""
        return f"the certificate in {self._certificate} and its key"

    @property
    def is_open_to_others(self) -> bool:
        """Return whether every user of this machine may read the private key."""
        return is_open_to_others(self._key)

    @property
    def pair(self) -> tuple[bytes, bytes]:
        """The private key and the chain of certificates, as they were last good."""
        return self._pair

    @property
    def client_ca_bytes(self) -> bytes | None:
        """The content of `client_ca`."""
        return self._authorities

    def read_again(self) -> None:
        """See `servers.access.changing_files.Followed`.

        Bad files are read again when they change: a certificate and its key are seldom written at
        the same instant.
        """
        problem, seen = "", SeenFiles()
        try:
            if not self._seen.have_changed():
                return
            self._newest, self._pair = self._read(seen)
        except DescriptorsExhaustedError as error:
            problem = f"{self._certificate}: {error}"  # nothing was seen: the next look reads
        except TlsError as error:
            problem, self._seen = str(error), seen
        else:
            self._seen = seen
            _log.info("%s: read again, for new connections", self._certificate)
        if problem and problem != self._problem:
            _log.error("%s; the certificate that was read before stays", problem)
        self._problem = problem

    def _read(self, seen: SeenFiles) -> tuple[dict[str, ssl.SSLContext], tuple[bytes, bytes]]:
        """Return a context for each protocol, and the private key with the chain.

        Raises:
            TlsError: a file cannot be read, is not what it should be, or changes meanwhile.
        """
        contexts: dict[str, ssl.SSLContext] = {}
        # Read first, because the library's errors do not say which file could not be read.
        chain, key = _content(self._certificate, seen), _content(self._key, seen)
        for protocol in _PROTOCOLS:
            contexts[protocol] = context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.options |= ssl.OP_NO_RENEGOTIATION
            context.set_alpn_protocols([protocol])
            _load_pair(context, self._certificate, self._key)
            if self.client_ca is not None and self._authorities is not None:
                _load_client_ca(context, self.client_ca, self._authorities)
        if seen.have_changed():  # the library has read the files a second time
            raise TlsError(f"{self._certificate}: the file or its key is being written")
        return contexts, (key, chain)

    def _use_newest(
        self,
        protocol: str,
        connection: ssl.SSLSocket | ssl.SSLObject,
        name: str | None,
        context: ssl.SSLContext,
    ) -> None:
        # Called in each handshake. Loading files into a context in use would race with it.
        connection.context = self._newest[protocol]


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"{key}: this is not the key of {certificate}") from None
        raise TlsError(
            f"{certificate}, {key}: a certificate and its private key in PEM's form are needed: "
            f"{_reason(error)}"
        ) from None


def _load_client_ca(context: ssl.SSLContext, path: Path, content: bytes) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        # Comments in bundles may name authorities in other letters.
        context.load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except ssl.SSLError as error:
        raise TlsError(
            f"{path}: certificates in PEM's form are needed, to check clients' with: "
            f"{_reason(error)}"
        ) from None
    if not context.get_ca_certs():
        raise TlsError(f"{path}: there is no certificate of an authority in it")


def _content(path: Path, seen: SeenFiles) -> bytes:
    try:
        return seen.read(path, MAX_BYTES)
    except OSError as error:
        raise TlsError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _no_password() -> NoReturn:
    # Without this the library would ask the terminal.
    raise TlsError("a private key with a password cannot be used: remove the password")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not understood").lower().replace("_", " ")
