"""A certificate, its key, and who may show which certificate: the files of TLS on both fronts."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from graph_runtime.regular_file import DescriptorsExhaustedError, read_regular_file
from servers.access.changing_files import ChangingFiles, is_open_to_others

#: Of a file of certificates; bundles of authorities have some 200 KB.
MAX_BYTES: Final = 4 * 1024 * 1024

_log: Final = logging.getLogger(__name__)


class TlsError(Exception):
    """Files cannot be used for TLS; the text names them and says why."""


class TlsFiles:
    """Files in PEM's form, checked; a certificate that is renewed is used for new connections.

    Attributes:
        client_ca: the certificates that clients' certificates must be signed with; None: clients
            need none. A change of it is only seen by a new server.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        client_ca: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``certificate``: the server's, then those of its chain.

        Raises:
            TlsError: a file cannot be read, or is not what it should be.
        """
        self.client_ca = client_ca
        self._certificate = certificate
        self._key = key
        self._files = ChangingFiles([certificate, key], clock=clock)
        self._live: list[ssl.SSLContext] = []
        self.new_context()
        self._pair = self._read_pair()

    @property
    def is_open_to_others(self) -> bool:
        """May every user of this machine read the private key?"""
        return is_open_to_others(self._key)

    @property
    def pair(self) -> tuple[bytes, bytes]:
        """The private key and the chain of certificates, as they were last good."""
        return self._pair

    def client_ca_bytes(self) -> bytes | None:
        return None if self.client_ca is None else _content(self.client_ca)

    def new_context(self) -> ssl.SSLContext:
        """A context of this server, from TLS 1.2 on; `renew` keeps it up to date.

        Raises:
            TlsError: as at the beginning.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        _load_pair(context, self._certificate, self._key)
        if self.client_ca is not None:
            _load_client_ca(context, self.client_ca)
        self._live.append(context)
        return context

    def renew(self) -> None:
        """Use the files as they are now, if they are others and good.

        To be called before a handshake, from any thread. Bad ones are logged and looked at again
        when they change: a certificate and its key are seldom written at the same instant.
        """
        if not self._files.have_changed():
            return
        try:
            _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._certificate, self._key)
            pair = self._read_pair()
            for context in self._live:
                _load_pair(context, self._certificate, self._key)
        except DescriptorsExhaustedError as error:
            self._files.look_again()
            _log.error("%s: %s; the one before stays", self._certificate, error)
            return
        except TlsError as error:
            _log.error("%s; the certificate that was read before stays", error)
            return
        self._pair = pair
        _log.info("%s: read again, for new connections", self._certificate)

    def _read_pair(self) -> tuple[bytes, bytes]:
        return _content(self._key), _content(self._certificate)


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    # Whether a file can be read is told apart first: the library says of neither which it was.
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


def _load_client_ca(context: ssl.SSLContext, path: Path) -> None:
    _content(path)
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(path)
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
    raise TlsError("a private key with a password cannot be used: nobody is there to type it")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not understood").lower().replace("_", " ")
