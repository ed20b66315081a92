"""The files of TLS on both fronts: certificate, private key, authorities of clients."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Final, NoReturn

from graph_runtime.regular_file import DescriptorsExhaustedError, read_regular_file
from servers.access.changing_files import ChangingFiles, is_open_to_others

#: Bytes of a file of certificates; bundles of authorities have some 200 KB.
MAX_BYTES: Final = 4 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class TlsError(Exception):
    """A file cannot be used for TLS; the text names it and says why."""


class TlsFiles:
    """The checked contents of PEM files. New connections use a renewed certificate.

    Attributes:
        client_ca: the certificates that clients' certificates must be signed with; None: clients
            need none. The file is read once.
        context: for listening sockets, TLS 1.2 and later; each handshake takes the certificate
            that was read last.
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
        self._files = ChangingFiles([certificate, key])
        self._authorities = None if client_ca is None else _content(client_ca)
        self.context = self._newest = self._new_context()
        self.context.sni_callback = self._use_newest
        self._pair = self._read_pair()

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
        if not self._files.have_changed():
            return
        try:
            newest, pair = self._new_context(), self._read_pair()
        except DescriptorsExhaustedError as error:
            self._files.forget()
            _log.error("%s: %s; the one before stays", self._certificate, error)
            return
        except TlsError as error:
            _log.error("%s; the certificate that was read before stays", error)
            return
        self._newest, self._pair = newest, pair
        _log.info("%s: read again, for new connections", self._certificate)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load_pair(context, self._certificate, self._key)
        if self.client_ca is not None and self._authorities is not None:
            _load_client_ca(context, self.client_ca, self._authorities)
        return context

    def _use_newest(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        # Called in each handshake. Loading files into a context in use would race with it.
        connection.context = self._newest

    def _read_pair(self) -> tuple[bytes, bytes]:
        return _content(self._key), _content(self._certificate)


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    # Read first, because the library's errors do not say which file could not be read.
    _content(certificate)
    _content(key)
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


def _content(path: Path) -> bytes:
    try:
        return read_regular_file(path, MAX_BYTES)
    except OSError as error:
        raise TlsError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _no_password() -> NoReturn:
    # Without this the library would ask the terminal.
    raise TlsError("a private key with a password cannot be used: remove the password")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not understood").lower().replace("_", " ")
