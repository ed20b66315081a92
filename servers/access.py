"""`Access`: the rules for requests over HTTP and gRPC.

An `Access` has the files of TLS of both fronts (certificate, private key, authorities of clients)
and the file of keys that clients must show. An operator may change the files while the server runs;
they are read again then.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import hmac
import logging
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Final, NoReturn, Protocol, Self, cast

from calculators.kit.file_threads import FilesNotAnsweringError, in_file_thread
from calculators.kit.memory import return_free_memory
from calculators.kit.requests.client_identity import (
    HIGHEST_PRIORITY,
    NORMAL_PRIORITY,
    ClientIdentity,
)
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.seen_files import SeenFiles
from graph_runtime import Code
from graphrt_base.regular_file import DescriptorsExhaustedError

#: Seconds between two checks of a file.
LOOK_SECONDS: Final = 1.0


class Followed(Protocol):
    """The content of files that `follow` keeps up to date."""

    @property
    def owner(self) -> str:
        """The name of the files in errors: ``the API keys in keys.txt``."""

    def read_again(self) -> None:
        """Read the files if they have changed; what is wrong with them is logged, not raised.

        Blocks, so it is called in a thread. Calls do not overlap.
        """


async def follow(followed: Iterable[Followed]) -> None:
    """Look at files every `LOOK_SECONDS`, until this is cancelled.

    Files that do not answer, as on a network mount that is gone, delay neither the event loop nor
    other files; what was read from them before stays in use.
    """
    async with asyncio.TaskGroup() as tasks:
        for each in followed:
            tasks.create_task(_follow(each), name=f"follow {each.owner}")


async def _follow(followed: Followed) -> None:
    answers = True
    while True:
        # No signal and no restart: certificates are renewed while a server runs (decision 0039).
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await in_file_thread(followed.owner, followed.read_again)
        except FilesNotAnsweringError as error:
            if answers:
                _log.error("%s; what was read before stays", error)
            answers = False
        except Exception:
            _log.exception("%s cannot be read again", followed.owner)
        else:
            answers = True


def is_open_to_others(path: Path) -> bool:
    """Return whether users besides the owner and the group may read a file; on POSIX systems."""
    return os.name == "posix" and bool(path.stat().st_mode & 0o004)


#: Characters of a key.
MAX_KEY: Final = 512
#: Bytes of a file of keys.
KEY_FILE_BYTES: Final = 1024 * 1024

# Characters that a header carries without loss.
_KEY: Final = re.compile(rf"[!-~]{{1,{MAX_KEY}}}", re.ASCII)
_PRIORITY: Final = "priority="


class KeyFileError(Exception):
    """A file of keys cannot be used. The text names the file and the line, never a key."""


class ApiKeys:
    """A set of keys.

    Only digests of the keys are kept, so that no key can get into a log or a message.
    """

    def __init__(
        self,
        priorities: Mapping[bytes, int],
        path: Path | None = None,
        seen: SeenFiles | None = None,
    ) -> None:
        """``priorities``: of the keys, by their digests."""
        self._priorities = priorities
        self._path = path
        #: The file as it was last read.
        self._seen = seen or SeenFiles()
        #: What is wrong with the file as it is now; "" if nothing is.
        self._problem = ""

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read a file with one key per line; empty lines and lines that begin with ``#`` are none.

        ``priority=N`` after a key is its `ClientIdentity.priority`.

        Raises:
            KeyFileError: the file cannot be read, has no key, or has a line that is not a key.
        """
        seen = SeenFiles()
        return cls(_read(path, seen), path, seen)

    @classmethod
    def of_text(cls, text: str, source: str) -> Self:
        """Read keys from a text such as the value of an environment variable.

        Raises:
            KeyFileError: as for `of_file`; ``source`` names the text in it.
        """
        return cls(_keys(text, source))

    @property
    def owner(self) -> str:
        """See `servers.access.Followed`."""
        return f"the API keys in {self._path}"

    @property
    def is_open_to_others(self) -> bool:
        """Return whether every user of this machine may read the file of keys."""
        return self._path is not None and is_open_to_others(self._path)

    def __len__(self) -> int:
        return len(self._priorities)

    def accepts(self, shown: str) -> bool:
        """Return whether ``shown`` is one of the keys. The time taken does not depend on it."""
        return self.priority_of(shown) > 0

    def priority_of(self, shown: str) -> int:
        """Return the priority of a key, or 0 for what is none; in a time that says nothing."""
        digest = digest_of(shown)
        found = 0
        for known, priority in self._priorities.items():
            found += priority * hmac.compare_digest(known, digest)
        return found

    def read_again(self) -> None:
        """See `servers.access.Followed`."""
        if self._path is None:
            return
        problem, seen = "", SeenFiles()
        try:
            if not self._seen.have_changed():
                return
            self._priorities = _read(self._path, seen)
        except DescriptorsExhaustedError as error:
            problem = f"{self._path}: {error}"  # nothing was seen: the next check reads
        except KeyFileError as error:
            # A file that is being written, or was deleted by mistake, neither opens the server nor
            # locks its clients out.
            problem, self._seen = str(error), seen
        else:
            self._seen = seen
            _log.info("%s: read again: %d keys", self._path, len(self))
        if problem and problem != self._problem:
            _log.error("%s; the keys that were read before stay", problem)
        self._problem = problem


def _read(path: Path, seen: SeenFiles) -> dict[bytes, int]:
    try:
        data = seen.read(path, KEY_FILE_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise KeyFileError(
                f"{path}: more than {KEY_FILE_BYTES} bytes, too large for a file of keys"
            ) from None
        reason = (error.strerror or "cannot be read").lower()
        raise KeyFileError(f"{path}: {reason}") from None
    try:
        # Editors may begin a file with a byte order mark, which would be a letter of the first key.
        return _keys(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError:
        raise KeyFileError(f"{path}: this is not text, so it has no keys") from None


def _keys(text: str, source: str) -> dict[bytes, int]:
    """Return the priorities of the keys in a text, by their digests."""
    keys: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, *settings = line.split()
        if _KEY.fullmatch(key) is None or any(not each.startswith(_PRIORITY) for each in settings):
            raise KeyFileError(
                f"{source}: line {number} is not a key: a key has 1 to {MAX_KEY} letters, digits "
                f"and signs of ASCII, and no space; only {_PRIORITY}N may follow it"
            )
        keys[digest_of(key)] = _priority(settings, f"{source}: line {number}")
    if not keys:
        raise KeyFileError(f"{source}: there is no key in it: write one per line")
    return keys


def _priority(settings: Sequence[str], where: str) -> int:
    if not settings:
        return NORMAL_PRIORITY
    value = settings[-1].removeprefix(_PRIORITY)
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(HIGHEST_PRIORITY))
    if len(settings) > 1 or not is_number or not 1 <= int(value) <= HIGHEST_PRIORITY:
        raise KeyFileError(
            f"{where}: {_PRIORITY} after a key takes one number from 1 to {HIGHEST_PRIORITY}; "
            f"keys without it have {NORMAL_PRIORITY}"
        )
    return int(value)


def digest_of(key: str) -> bytes:
    """Return the SHA-256 digest of a key, which stands for it in memory and in names."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


#: Bytes of a file of certificates; bundles of authorities have some 200 KB.
TLS_FILE_BYTES: Final = 4 * 1024 * 1024

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
        """See `servers.access.Followed`."""
        return f"the certificate in {self._certificate} and its key"

    @property
    def is_open_to_others(self) -> bool:
        """Return whether every user of this machine may read the private key."""
        return is_open_to_others(self._key)

    @property
    def pair(self) -> tuple[bytes, bytes]:
        """The private key and the chain of certificates, as they were last good."""
        return self._pair

    def read_again(self) -> None:
        """See `servers.access.Followed`.

        Bad files are read again when they change: a certificate and its key are seldom written at
        the same instant.
        """
        problem, seen = "", SeenFiles()
        try:
            if not self._seen.have_changed():
                return
            self._newest, self._pair = self._read(seen)
        except DescriptorsExhaustedError as error:
            problem = f"{self._certificate}: {error}"  # nothing was seen: the next check reads
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
        return seen.read(path, TLS_FILE_BYTES)
    except OSError as error:
        raise TlsError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _no_password() -> NoReturn:
    # Without this the library would ask the terminal.
    raise TlsError("a private key with a password cannot be used: remove the password")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not understood").lower().replace("_", " ")


#: Handshakes of one listening socket at a time. One has 60 KiB, and takes a millisecond of the
#: processor when its client is there.
MOST_HANDSHAKES: Final = 512
#: Memory is given back so many seconds after so many handshakes have failed.
_TIDY_HANDSHAKES: Final = 128
_TIDY_SECONDS: Final = 1.0
_FED_BYTES: Final = 16 * 1024


class Handshakes:
    """The handshakes of TLS on a listening socket: bounded in time and number.

    asyncio counts none: a client that sends half of one would have as many as there are
    descriptors. One above the limit ends the oldest.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        *,
        seconds: float,
        closing_seconds: float,
    ) -> None:
        """``make``: makes the protocol of a connection whose handshake is done; ``seconds``: time
        for a handshake; ``closing_seconds``: for the answer to the end of TLS.
        """
        self.make = make
        self.context = context
        self.seconds = seconds
        self.closing_seconds = closing_seconds
        self.is_closed = False
        self._going_on: dict[_Handshake, None] = {}
        self._failed = 0

    def begin(self) -> asyncio.Protocol:
        """Return the protocol factory of the listening socket."""
        return _Handshake(self)

    def abort(self) -> None:
        """End those that are going on; none ends well from now on."""
        self.is_closed = True
        for handshake in list(self._going_on):
            handshake.abort()

    def add(self, handshake: _Handshake) -> None:
        if len(self._going_on) >= MOST_HANDSHAKES:
            next(iter(self._going_on)).abort()
        self._going_on[handshake] = None

    def discard(self, handshake: _Handshake, *, has_failed: bool) -> None:
        self._going_on.pop(handshake, None)
        self._failed += has_failed
        if self._failed == _TIDY_HANDSHAKES and has_failed:
            asyncio.get_running_loop().call_later(_TIDY_SECONDS, self._tidy)

    def _tidy(self) -> None:
        if len(self._going_on) >= _TIDY_HANDSHAKES:  # more will fail
            asyncio.get_running_loop().call_later(_TIDY_SECONDS, self._tidy)
            return
        self._failed = 0
        gc.collect()  # transports of TLS and their errors are in cycles
        _ = asyncio.get_running_loop().run_in_executor(None, return_free_memory)


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is done."""

    def __init__(self, handshakes: Handshakes) -> None:
        self._handshakes = handshakes
        self._wire: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        #: What was read before TLS was there to read.
        self._read = b""
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._wire.pause_reading()  # uvloop reads once all the same
        self._handshakes.add(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._wire))

    def data_received(self, data: bytes) -> None:
        self._read += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True

    def abort(self) -> None:
        """End the connection."""
        self._is_over = True
        self._handshakes.discard(self, has_failed=True)
        if self._wire is not None:
            self._wire.abort()

    async def _shake_hands(self, wire: asyncio.Transport) -> None:
        early = _EarlyData()
        loop = asyncio.get_running_loop()
        starting = loop.create_task(
            loop.start_tls(
                wire,
                early,
                self._handshakes.context,
                server_side=True,
                ssl_handshake_timeout=self._handshakes.seconds,
                ssl_shutdown_timeout=self._handshakes.closing_seconds,
            )
        )
        opened = None
        try:
            # The first turn gives the connection to TLS, the second one begins the handshake.
            for _ in range(2):
                await asyncio.sleep(0)
            if self._is_over:  # TLS would wait for what cannot come
                starting.cancel()
                return
            if self._read:
                _feed(cast(asyncio.BufferedProtocol, wire.get_protocol()), self._read)
            opened = await starting
            if wire.is_closing():  # uvloop then says that all is well
                opened = None
        except OSError:  # ssl.SSLError, TimeoutError and ConnectionError among them
            wire.abort()
        finally:
            self._handshakes.discard(self, has_failed=opened is None)
        if opened is not None and self._handshakes.is_closed:
            opened.abort()
        elif opened is not None and not early.is_lost:
            early.pass_on(opened, self._handshakes.make())


def _feed(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    """Give TLS what was read before it was there to read."""
    for place in range(0, len(data), _FED_BYTES):
        piece = data[place : place + _FED_BYTES]
        memoryview(protocol.get_buffer(len(piece)))[: len(piece)] = piece
        protocol.buffer_updated(len(piece))


class _EarlyData(asyncio.Protocol):
    """Keeps what a client sends right after its handshake, for the connection's protocol.

    Attributes:
        is_lost: the connection has ended.
    """

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._has_eof = False
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data.append(data)

    def eof_received(self) -> None:
        self._has_eof = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def pass_on(self, wire: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Let ``protocol`` have the connection from its beginning."""
        wire.set_protocol(protocol)
        protocol.connection_made(wire)
        for data in self._data:
            protocol.data_received(data)
        if self._has_eof:
            protocol.eof_received()


#: Paths that need no key: health, for probes without keys. A gRPC method is a path too.
HEALTH_ROUTES: Final = (
    "/v2/health/live",
    "/v2/health/ready",
    "/livez",
    "/readyz",
    "/health",
    "/ping",
    "/inference.GRPCInferenceService/ServerLive",
    "/inference.GRPCInferenceService/ServerReady",
    "/grpc.health.v1.Health/*",
)

#: The page that shows the OpenAPI document, and its files. They are the same on every server; the
#: page asks for a key before it reads the document.
DOCS_ROUTES: Final = ("/docs", "/docs/viewer.js", "/docs/viewer.css")

#: The files of the page: the same on every server too. Everything that they show needs a key.
PAGE_ROUTES: Final = ("/", "/page/*")

_OPEN_ROUTES: Final = (*HEALTH_ROUTES, *DOCS_ROUTES, *PAGE_ROUTES)

_OPEN_PATHS: Final = frozenset(route for route in _OPEN_ROUTES if not route.endswith("*"))
_OPEN_GROUPS: Final = tuple(route for route in _OPEN_ROUTES if route.endswith("*"))

#: Headers, and gRPC's metadata, that carry keys; in lower case.
KEY_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key")

_SEND: Final = "send `Authorization: Bearer KEY`, or `x-api-key: KEY`"


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of a server's clients.

    Attributes:
        keys: the valid keys; None: no key is needed.
        open_routes: paths as clients send them, and gRPC's ``/service/method``, that need no key,
            in addition to `HEALTH_ROUTES`, `DOCS_ROUTES` and `PAGE_ROUTES`. A path that ends in
            ``*`` matches all that begin so.
        allows_control: clients may load and unload graphs and models.
    """

    keys: ApiKeys | None = None
    open_routes: tuple[str, ...] = ()
    allows_control: bool = True

    def check(self, path: str, authorization: str | None, *api_keys: str | None) -> None:
        """Check that a client may request ``path``. The other arguments are its `KEY_HEADERS`.

        Raises:
            RequestError: UNAUTHENTICATED.
        """
        keys = self.keys
        if keys is None or self.is_open(path):
            return
        shown = [key for key in (_bearer(authorization), *api_keys) if key]
        if not shown:
            raise _unauthenticated(f"no API key: {_SEND}")
        if not any(keys.accepts(key) for key in shown):
            raise _unauthenticated("the API key is not valid")

    def client(
        self, peer: ClientIdentity, authorization: str | None, *api_keys: str | None
    ) -> ClientIdentity:
        """Return the client's identity: its key where keys are needed, else that of its address.

        ``peer``: see `identity_of_peer`.
        """
        keys = self.keys
        if keys is not None:
            for key in (_bearer(authorization), *api_keys):
                if key and (priority := keys.priority_of(key)):
                    name = f"key {digest_of(key).hex()}"
                    return ClientIdentity(name, peer.connection, priority)
        return peer

    def check_control(self) -> None:
        """Check that clients may load, unload and reload what is served.

        Raises:
            RequestError: PERMISSION_DENIED.
        """
        if not self.allows_control:
            raise RequestError(
                "what is loaded cannot be changed over the network here: the server has no API "
                "keys; set some, or allow it in the server's settings",
                code=Code.PERMISSION_DENIED,
            )

    def is_open(self, path: str) -> bool:
        """Return whether ``path`` needs no key."""
        if path in _OPEN_PATHS:
            return True
        return any(_matches(path, route) for route in (*_OPEN_GROUPS, *self.open_routes))


def identity_of_peer(address: str, port: str) -> ClientIdentity:
    """Return the identity of a client that has no key.

    ``address``: "" if unknown; ``port``: the peer's, which distinguishes its connections.
    """
    name = _network(address) if ":" in address else address
    return ClientIdentity(name, f"{address} {port}" if port else "")


def _matches(path: str, route: str) -> bool:
    return path.startswith(route[:-1]) if route.endswith("*") else path == route


def _network(address: str) -> str:
    """Return the /64 network of an IPv6 address, which one client usually owns."""
    try:
        return str(ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address


def _bearer(authorization: str | None) -> str:
    scheme, _, key = (authorization or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _unauthenticated(text: str) -> RequestError:
    return RequestError(text, code=Code.UNAUTHENTICATED, reason="invalid_api_key")
