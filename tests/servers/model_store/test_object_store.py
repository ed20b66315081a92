"""Addresses of object stores, and the credentials with which they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import (
    AccessRefusedError,
    ObjectStore,
    StoreAddress,
    read_address,
)
from tests.servers.model_store.store_servers import Link, S3Server, read_only_store


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://bucket/a/b", StoreAddress("s3", "bucket", "a/b")),
        ("s3://bucket/a/b/", StoreAddress("s3", "bucket", "a/b")),
        ("s3://bucket", StoreAddress("s3", "bucket", "")),
        ("s3://localhost:9000/bucket/a", StoreAddress("s3", "bucket", "a", "localhost:9000")),
        ("gs://my_bucket.x/a", StoreAddress("gs", "my_bucket.x", "a")),
        ("az://$root/a", StoreAddress("az", "$root", "a")),
    ],
)
def test_addresses_are_openvino_model_servers(text: str, address: StoreAddress) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["s3:///a", "s3://b/../c", "s3://b/c//d", "s3://user:word@host:1/b", "gs://h:1/b/c", "s4://b"],
)
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(ModelError, match="the address of its store cannot be read"):
        read_address(text)


def names(address: str) -> list[str]:
    return [file.name for file in ObjectStore(read_address(address)).list_files()]


def contents(address: str) -> dict[str, bytes]:
    store = ObjectStore(read_address(address))
    return {file.name: bytes(store.read(file, 0, file.size)) for file in store.list_files()}


def test_variables_that_are_empty_are_not_set(
    s3: S3Server, bucket: str, store_environment: pytest.MonkeyPatch
) -> None:
    # OpenVINO Model Server's documented command sets all of them, with or without a value.
    for name in ("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        store_environment.setenv(name, "")
    s3.put(bucket, "m/a", b"x")
    assert names(f"s3://{bucket}/m") == ["a"]


def test_a_private_bucket_needs_a_key_and_a_public_one_needs_none(
    s3: S3Server, bucket: str, store_environment: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/a", b"x")
    assert contents(f"s3://{bucket}/m") == {"a": b"x"}
    store_environment.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ModelError, match="only one is set"):
        names(f"s3://{bucket}/m")
    store_environment.delenv("AWS_SECRET_ACCESS_KEY")
    store = ObjectStore(read_address(f"s3://{bucket}/m"))
    (file,) = store.list_files()  # which moto lets anybody do
    with pytest.raises(AccessRefusedError, match="its store refuses to let these credentials"):
        store.read(file, 0, 1)
    s3.put(bucket, "m/a", b"y", acl="public-read")
    assert contents(f"s3://{bucket}/m") == {"a": b"y"}


def test_a_profile_in_the_files_of_aws_is_used(
    s3: S3Server, bucket: str, store_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    s3.put(bucket, "m/a", b"x")
    with Link(s3.endpoint) as link:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            store_environment.delenv(name)
        store_environment.setenv("S3_ENDPOINT", link.endpoint)
        folder = tmp_path / "home" / ".aws"
        folder.mkdir(parents=True)
        (folder / "credentials").write_text(
            "[default]\naws_access_key_id = of-default\naws_secret_access_key = x\n"
            "[work]\naws_access_key_id = of-work\naws_secret_access_key = x\n"
            "aws_session_token = token-of-work\n"
        )
        (folder / "config").write_text("[profile work]\nregion = eu-north-1\n")
        assert contents(f"s3://{bucket}/m") == {"a": b"x"}
        assert b"Credential=of-default/" in link.seen
        store_environment.setenv("AWS_PROFILE", "work")
        assert contents(f"s3://{bucket}/m") == {"a": b"x"}
        assert b"Credential=of-work/" in link.seen
        assert b"/eu-north-1/s3/" in link.seen
        assert b"token-of-work" in link.seen
        store_environment.setenv("AWS_PROFILE", "absent")
        with pytest.raises(ModelError, match="the profile that AWS_PROFILE names has no keys"):
            names(f"s3://{bucket}/m")


def test_a_proxy_of_the_environment_is_used(
    s3: S3Server, bucket: str, store_environment: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/a", b"x")
    with Link(s3.endpoint) as proxy:
        store_environment.setenv("S3_ENDPOINT", "http://store.invalid:80")
        for name in ("no_proxy", "NO_PROXY"):
            store_environment.delenv(name, raising=False)
        store_environment.setenv("http_proxy", f"http://{proxy.endpoint}")
        with pytest.raises(ModelError):
            names(f"s3://{bucket}/m")  # moto is no proxy
        assert b"GET http://store.invalid" in proxy.seen


def test_no_error_and_no_log_has_a_key(
    s3: S3Server,
    bucket: str,
    store_environment: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    store_environment.setenv("AWS_SESSION_TOKEN", "token-of-the-test")
    for endpoint in (s3.endpoint, "127.0.0.1:1"):
        store_environment.setenv("S3_ENDPOINT", endpoint)
        with pytest.raises(ModelError) as failed:
            names("s3://no-such-bucket/m")
        shown = "".join((str(failed.value), repr(failed.value.__context__), caplog.text))
        for word in ("key-of-the-test", "secret-of-the-test", "token-of-the-test", "Signature"):
            assert word not in shown


FILES = {"m/1/model.xml": b"x" * 100, "m/1/model.bin": b"y" * 1000, "other": b""}


def test_google_is_read_by_its_xml_interface(store_environment: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    with read_only_store(FILES) as store:
        store_environment.setenv("STORAGE_EMULATOR_HOST", store.endpoint)
        assert contents("gs://bucket/m") == {
            "1/model.bin": b"y" * 1000,
            "1/model.xml": b"x" * 100,
        }
        store_environment.delenv("STORAGE_EMULATOR_HOST")
        store_environment.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
        with pytest.raises(ModelError, match="no file that GOOGLE_APPLICATION_CREDENTIALS names"):
            names("gs://bucket/m")


def test_azure_is_read_with_a_connection_string(store_environment: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    with read_only_store(FILES) as store:
        parts = f"AccountName=acc;BlobEndpoint=http://{store.endpoint}/"
        store_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{parts};AccountKey=c2VjcmV0;")
        assert contents("az://container/m")["1/model.bin"] == b"y" * 1000
        assert (store.authorizations[-1] or "").startswith("SharedKey acc:")
        store_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", parts)
        assert names("az://container/m") == ["1/model.bin", "1/model.xml"]
        assert store.authorizations[-1] is None
        store_environment.setenv("AZURE_STORAGE_CONNECTION_STRING", "Account=x")
        with pytest.raises(ModelError, match="has no AccountName"):
            names("az://container/m")
