"""Object stores: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage.

An address is OpenVINO Model Server's (its ``using_cloud_storage.md``): ``s3://bucket/path``,
``s3://host:port/bucket/path``, ``gs://bucket/path``, ``az://container/path``. Credentials come from
where each provider's own tools look for them, and appear in no error: the library's errors, which
quote requests and answers, are replaced by texts of this module. The library is obstore (``pip
install graphrt[cloud]``), which is imported with the first store (decision 0096).
"""

from __future__ import annotations

import configparser
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final

from servers.model_store.model_reference import ModelError, check_file_name

_log: Final = logging.getLogger(__name__)

#: Files below one address; more are no model.
MOST_FILES: Final = 10_000
#: Seconds until a connection stands, without a byte of an answer, and for one answer whole.
CONNECT_SECONDS: Final = 5
SILENT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 60
#: Further tries of a request, with growing pauses, and the seconds after which none begins.
_RETRIES: Final = 3
RETRY_SECONDS: Final = 20

_ADDRESS: Final = re.compile(
    r"(?P<scheme>s3|gs|az)://(?P<bucket>[A-Za-z0-9$][\w.-]*)(?P<path>/.*)?"
)
_WITH_HOST: Final = re.compile(r"s3://(?P<host>[A-Za-z0-9.-]+:\d{1,5})(?P<rest>/.*)")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The place of a model in a store.

    Attributes:
        scheme: ``s3``, ``gs`` or ``az``.
        bucket: an Azure container, too.
        path: without slashes at the ends; "" is the whole bucket.
        host: host and port of the store, if the address names them.
    """

    scheme: str
    bucket: str
    path: str
    host: str = ""

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2] or self.bucket


def read_address(text: str) -> StoreAddress:
    """Read an address.

    Raises:
        ModelError: it is not one, or of a store that is not read.
    """
    if text.startswith("azfs://"):
        raise ModelError(
            "Azure's file shares (azfs://) are not read",
            hint="mount the share, and name its directory; or use blobs (az://)",
        )
    host, rest = "", text
    with_host = _WITH_HOST.fullmatch(text)
    if with_host is not None:
        host, rest = with_host["host"], f"s3:/{with_host['rest']}"
    found = _ADDRESS.fullmatch(rest)
    path = (found["path"] or "").strip("/") if found is not None else ""
    if found is None or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise ModelError(
            "the address of its store cannot be read",
            hint="the forms are s3://bucket/path, gs://bucket/path and az://container/path; "
            "credentials are not a part of it",
        )
    return StoreAddress(found["scheme"], found["bucket"], path, host)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file in a store.

    Attributes:
        name: its path, relative to the address.
        size: bytes.
        mark: the store's word for this content (ETag).
    """

    name: str
    size: int
    mark: str


class ObjectStore:
    """Reads what is below one address. Methods wait for the store: call them in threads.

    Each waits at most about a minute: a store that does not answer is given up.

    Attributes:
        is_file: the address names one file, as the last listing showed.
    """

    def __init__(self, address: StoreAddress) -> None:
        self.is_file = False
        self._address = address
        self._library: Any = None
        self._store: Any = None
        #: The path of the directory of the files, with a slash at its end.
        self._above = ""

    def list_files(self) -> tuple[RemoteFile, ...]:
        """Return the files below the address, or the one that it names, sorted by name.

        Raises:
            ModelError: the store refuses or does not answer, there is nothing, or too much.
        """
        # Credentials are read again after a failure: they may have been renewed.
        store, self._store = self._store, None
        ways = [store] if store is not None else self._open()
        failure: ModelError | None = None
        for way in ways:
            try:
                with _errors():
                    files = self._list(way)
            except ModelError as error:
                if failure is None or not isinstance(failure, AccessRefusedError):
                    failure = error
                if isinstance(error, AccessRefusedError):
                    continue  # without a signature; instance metadata is next
                break
            self._store = way
            return files
        assert failure is not None
        raise failure

    def read(self, file: RemoteFile, start: int, end: int) -> memoryview:
        """Return the bytes of a file from ``start`` to ``end``, which is not included.

        Raises:
            ModelError: the store refuses or does not answer, or the file is not as listed.
        """
        path = f"{self._above}{file.name}"
        with _errors():
            answer = self._library.get(self._store, path, options={"range": (start, end)})
            data = memoryview(answer.bytes())
            is_same = _mark_of(answer.meta) == file.mark
        if not is_same or len(data) != end - start:
            raise ModelError(_CHANGED)
        return data

    def _list(self, store: Any) -> tuple[RemoteFile, ...]:
        prefix = self._address.path
        found: list[RemoteFile] = []
        self._above = f"{prefix}/" if prefix else ""
        self.is_file = False
        for chunk in self._library.list(store, prefix or None):
            found += [_file_of(meta, meta["path"][len(prefix) :].lstrip("/")) for meta in chunk]
            if len(found) > MOST_FILES:
                raise ModelError(
                    f"there are more than {MOST_FILES} files at its base_path in its store",
                    hint="name the directory of one model",
                )
        if not found and prefix:
            found = list(self._single_file(store))
            self._above = prefix[: prefix.rfind("/") + 1]
            self.is_file = bool(found)
        # Consoles make empty objects for directories.
        above = {str(each) for file in found for each in PurePosixPath(file.name).parents}
        files = [file for file in found if file.name and (file.size or file.name not in above)]
        for file in files:
            check_file_name(file.name)
            if file.name in above:
                raise ModelError(f'"{file.name}" is a file and a directory in its store')
        if not files:
            raise ModelError("there is nothing at its base_path in its store")
        return tuple(sorted(files, key=lambda file: file.name))

    def _single_file(self, store: Any) -> Iterator[RemoteFile]:
        """Yield the file that the address names, and the weights beside it."""
        path = self._address.path
        names = [path, f"{path.removesuffix('.xml')}.bin"] if path.endswith(".xml") else [path]
        for name in names:
            try:
                meta = self._library.head(store, name)
            except FileNotFoundError:
                continue
            yield _file_of(meta, name.rpartition("/")[2])

    def _open(self) -> Iterator[Any]:
        """Yield stores for the ways to prove who asks, in the order in which to try them."""
        self._library = library = _library()
        settings, ways = _WAYS[self._address.scheme](self._address)
        options = {
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=SILENT_SECONDS),
            "timeout": timedelta(seconds=ANSWER_SECONDS),
            "allow_http": True,
        }
        retries = {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        }
        kinds = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
        kind = getattr(library.store, kinds[self._address.scheme])
        for way in ways:
            given = {**settings, **way}
            with _errors():
                store = kind(
                    self._address.bucket, client_options=options, retry_config=retries, **given
                )
            yield store


class AccessRefusedError(ModelError):
    """The store does not let these credentials, or nobody, read."""


class StoreDownError(ModelError):
    """The store does not answer, or fails; it may answer later."""


def _file_of(meta: Mapping[str, Any], name: str) -> RemoteFile:
    return RemoteFile(name, meta["size"], _mark_of(meta))


def _mark_of(meta: Mapping[str, Any]) -> str:
    """Return the store's word for a content; Azure quotes it in some answers only."""
    return str(meta["e_tag"] or meta["last_modified"].isoformat()).strip('"')


def _library() -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise ModelError(
            "models in a store need the package obstore", hint="pip install 'graphrt[cloud]'"
        ) from None
    return obstore


# Errors -------------------------------------------------------------------------------------------

_CHANGED: Final = "a file changed in its store while it was being read"
_REFUSED: Final = "its store refuses to let these credentials list and read its base_path"
#: Words of answers and of the library's errors, with the error that each stands for.
_TEXTS: Final[Sequence[tuple[Sequence[str], ModelError]]] = (
    (
        ("NoSuchBucket", "ContainerNotFound", "bucket does not exist", "container does not exist"),
        ModelError("there is no bucket in its store as its base_path names it"),
    ),
    (
        ("without LOCATION", "PermanentRedirect", "AuthorizationHeaderMalformed"),
        ModelError("the bucket is in another region", hint="set AWS_REGION"),
    ),
    (
        ("403 Forbidden", "401 Unauthorized", "AccessDenied", "/latest/", "metadata", "token"),
        AccessRefusedError(_REFUSED),
    ),
    (
        ("HTTP error", "timed out", "error sending request", "error decoding response body"),
        StoreDownError(
            "its store does not answer",
            hint="is there a network? S3_ENDPOINT names another store, HTTPS_PROXY a proxy",
        ),
    ),
    (
        ("503", "SlowDown", "500 Internal"),
        StoreDownError("its store is overloaded, or out of order"),
    ),
)


@contextmanager
def _errors() -> Iterator[None]:
    """Replace the library's errors, which may quote credentials, by this module's own."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        # The text is not logged either: it has the request, with the signature in some stores.
        kind = type(error).__name__
        text = str(error)
    else:
        return
    _log.debug("a store failed: %s", kind)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        raise AccessRefusedError(_REFUSED)
    if kind in ("PreconditionError", "FileNotFoundError", "NotFoundError"):
        raise ModelError(_CHANGED)
    for words, meant in _TEXTS:
        if any(word in text for word in words):
            raise type(meant)(str(meant), hint=meant.hint)
    raise ModelError(f"its store gave an answer that cannot be used ({kind})")


# Credentials --------------------------------------------------------------------------------------

#: Settings of a store, and the further settings of each way to prove who asks.
_Ways = tuple[dict[str, Any], list[dict[str, Any]]]

#: Without a signature, for public buckets; then what the instance says: asking for it takes a while
#: on machines that are none of the provider's.
_NOBODY_THEN_INSTANCE: Final[list[dict[str, Any]]] = [{"skip_signature": True}, {}]


def _environment(*names: str) -> str:
    """Return the first variable that is set; empty ones, as containers get them, are not."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _ways_to_s3(address: StoreAddress) -> _Ways:
    profile = _profile()
    endpoint = (
        address.host
        or _environment("S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        or profile.get("endpoint_url", "")
    )
    region = _environment("AWS_REGION", "AWS_DEFAULT_REGION") or profile.get("region", "")
    settings: dict[str, Any] = {"region": region or "us-east-1"}
    if endpoint:
        # OpenVINO Model Server speaks HTTP to an endpoint without a scheme.
        settings["endpoint"] = endpoint if "://" in endpoint else f"http://{endpoint}"
    key, secret = _environment("AWS_ACCESS_KEY_ID"), _environment("AWS_SECRET_ACCESS_KEY")
    token = _environment("AWS_SESSION_TOKEN")
    if bool(key) != bool(secret):
        raise ModelError("of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set")
    if not (key and secret):
        key, secret = (
            profile.get(f"aws_{name}", "") for name in ("access_key_id", "secret_access_key")
        )
        token = profile.get("aws_session_token", "")
    if key and secret:
        found = {
            "access_key_id": key,
            "secret_access_key": secret,
            "token": token or None,
            "expires_at": None,
        }
        return settings, [{"credential_provider": lambda: found}]
    if _environment(
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ):
        return settings, [{}]
    has_instance = _environment("AWS_EC2_METADATA_DISABLED").lower() != "true"
    return settings, _NOBODY_THEN_INSTANCE[: 1 + has_instance]


def _profile() -> Mapping[str, str]:
    """Return the settings of the profile in AWS's files.

    Raises:
        ModelError: the profile that AWS_PROFILE names has no keys.
    """
    name = _environment("AWS_PROFILE")
    found: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", f"profile {name}" if name else "default"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name or "default"),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(Path(_environment(variable) or file).expanduser(), encoding="utf-8")
            found |= dict(parser.items(section)) if parser.has_section(section) else {}
        except (OSError, ValueError, configparser.Error):
            _log.warning("%s cannot be read", variable if _environment(variable) else file)
    has_keys = found.get("aws_access_key_id") and found.get("aws_secret_access_key")
    if name and not has_keys and not _environment("AWS_ACCESS_KEY_ID"):
        raise ModelError(
            "the profile that AWS_PROFILE names has no keys in AWS's files",
            hint="roles and single sign-on are not read from them: set AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
        )
    return found


def _ways_to_gs(address: StoreAddress) -> _Ways:
    settings: dict[str, Any] = {}
    emulator = _environment("STORAGE_EMULATOR_HOST")
    if emulator:
        settings["base_url"] = emulator if "://" in emulator else f"http://{emulator}"
        return settings, [{"skip_signature": True}]
    file = _environment("GOOGLE_APPLICATION_CREDENTIALS")
    if file and not Path(file).is_file():
        raise ModelError("there is no file that GOOGLE_APPLICATION_CREDENTIALS names")
    own = Path("~/.config/gcloud/application_default_credentials.json").expanduser()
    has_own = file or own.is_file() or _environment("GOOGLE_SERVICE_ACCOUNT_KEY")
    return settings, [{}] if has_own else _NOBODY_THEN_INSTANCE


def _ways_to_az(address: StoreAddress) -> _Ways:
    text = _environment("AZURE_STORAGE_CONNECTION_STRING")
    if not text:
        if not _environment("AZURE_STORAGE_ACCOUNT_NAME"):
            raise ModelError(
                "Azure's account is not known",
                hint="set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME",
            )
        has_key = _environment(
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_ACCESS_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_STORAGE_SAS_KEY",
            "AZURE_CLIENT_ID",
            "AZURE_STORAGE_CLIENT_ID",
        )
        return {}, [{}] if has_key else _NOBODY_THEN_INSTANCE
    parts = {
        name.strip().lower(): value.strip()
        for name, is_pair, value in (each.partition("=") for each in text.split(";"))
        if is_pair
    }
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return {"use_emulator": True}, [{}]
    account = parts.get("accountname", "")
    endpoint = parts.get("blobendpoint", "").rstrip("/")
    if not account and endpoint:
        account = endpoint.partition("://")[2].partition(".")[0]
    if not account:
        raise ModelError(
            "AZURE_STORAGE_CONNECTION_STRING has no AccountName",
            hint="the form is DefaultEndpointsProtocol=https;AccountName=...;AccountKey=...",
        )
    protocol = parts.get("defaultendpointsprotocol", "https")
    suffix = parts.get("endpointsuffix", "core.windows.net")
    settings: dict[str, Any] = {
        "account_name": account,
        "endpoint": endpoint or f"{protocol}://{account}.blob.{suffix}",
    }
    if parts.get("accountkey"):
        return settings, [{"account_key": parts["accountkey"]}]
    if parts.get("sharedaccesssignature"):
        return settings, [{"sas_key": parts["sharedaccesssignature"].removeprefix("?")}]
    return settings, [{"skip_signature": True}]


_WAYS: Final = {"s3": _ways_to_s3, "gs": _ways_to_gs, "az": _ways_to_az}
