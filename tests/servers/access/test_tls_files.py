"""TLS files: their checks, and their renewal."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest

from servers.access import TlsError, TlsFiles
from tests.servers.certificates import authority, locked_key
from tests.support.unprivileged import forbidden, modes_count


def test_good_files_make_a_context_from_tls_1_2_on(tmp_path: Path) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    context = TlsFiles(certificate, key).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    asking = TlsFiles(certificate, key, signer.file).context
    assert asking.verify_mode is ssl.CERT_REQUIRED


def test_invalid_files_are_refused_by_name(tmp_path: Path) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    _, other_key = signer.issue(tmp_path, "other")
    junk = tmp_path / "junk"
    junk.write_text("junk")
    no_ca = signer.issue(tmp_path, "leaf")[0]
    locked = locked_key(tmp_path / "locked.key")
    none = tmp_path / "none"
    for files, message in (
        ((none, key), f"{none}: no such file or directory"),
        ((certificate, none), f"{none}: no such file or directory"),
        ((tmp_path, key), f"{tmp_path}: is a directory"),
        ((certificate, other_key), f"{other_key}: this is not the key of {certificate}"),
        ((junk, key), f"{junk}, {key}: a certificate and its private key in PEM's form are needed"),
        ((certificate, junk), "a certificate and its private key in PEM's form are needed"),
        ((certificate, certificate), "a certificate and its private key in PEM's form are needed"),
        ((certificate, locked), "a private key with a password cannot be used"),
        ((certificate, key, none), f"{none}: no such file or directory"),
        ((certificate, key, junk), f"{junk}: certificates in PEM's form are needed"),
        ((certificate, key, no_ca), f"{no_ca}: there is no certificate of an authority in it"),
    ):
        with pytest.raises(TlsError) as caught:
            TlsFiles(*files)
        assert str(caught.value).startswith(message) or message in str(caught.value)


def test_a_key_that_every_user_may_read_gives_a_warning(tmp_path: Path) -> None:
    certificate, key = authority(tmp_path).issue(tmp_path, "server")
    assert not TlsFiles(certificate, key).is_open_to_others
    key.chmod(0o604)
    assert TlsFiles(certificate, key).is_open_to_others


def test_renewed_files_are_used_once_both_have_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    (tmp_path / "later").mkdir()
    next_certificate, next_key = signer.issue(tmp_path / "later", "server")
    tls = TlsFiles(certificate, key)
    before = tls.pair

    shutil.copy(next_certificate, certificate)
    tls.read_again()
    assert tls.pair == before
    assert "this is not the key of" in caplog.text
    assert "the certificate that was read before stays" in caplog.text

    shutil.copy(next_key, key)
    tls.read_again()
    assert tls.pair == (next_key.read_bytes(), next_certificate.read_bytes())
    caplog.clear()

    key.unlink()
    tls.read_again()
    assert tls.pair == (next_key.read_bytes(), next_certificate.read_bytes())
    assert "no such file" in caplog.text


def test_a_key_that_may_not_be_read_for_a_while_is_read_afterwards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    (tmp_path / "later").mkdir()
    next_certificate, next_key = signer.issue(tmp_path / "later", "server")
    tls = TlsFiles(certificate, key)
    with modes_count():
        shutil.copy(next_certificate, certificate)
        shutil.copy(next_key, key)
        with forbidden(key):
            for _ in range(2):
                tls.read_again()
        tls.read_again()
    assert tls.pair == (next_key.read_bytes(), next_certificate.read_bytes())
    assert caplog.text.count("permission denied") == 1
