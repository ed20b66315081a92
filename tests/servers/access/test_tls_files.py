"""Files of TLS: what they must be, and what happens when they are renewed."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest

from servers.access import TlsError, TlsFiles
from servers.access.changing_files import LOOK_SECONDS
from tests.servers.certificates import authority, locked_key


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_good_files_make_a_context_from_tls_1_2_on(tmp_path: Path) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    context = TlsFiles(certificate, key).new_context()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    asking = TlsFiles(certificate, key, signer.file).new_context()
    assert asking.verify_mode is ssl.CERT_REQUIRED


def test_bad_files_are_told_by_name(tmp_path: Path) -> None:
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


def test_a_key_that_everybody_may_read_is_told(tmp_path: Path) -> None:
    certificate, key = authority(tmp_path).issue(tmp_path, "server")
    assert not TlsFiles(certificate, key).is_open_to_others
    key.chmod(0o604)
    assert TlsFiles(certificate, key).is_open_to_others


def test_files_that_are_renewed_one_after_the_other_are_used_when_both_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signer = authority(tmp_path)
    certificate, key = signer.issue(tmp_path, "server")
    (tmp_path / "later").mkdir()
    next_certificate, next_key = signer.issue(tmp_path / "later", "server")
    clock = Clock()
    tls = TlsFiles(certificate, key, clock=clock)
    before = tls.pair

    shutil.copy(next_certificate, certificate)
    clock.now += LOOK_SECONDS
    tls.renew()
    assert tls.pair == before
    assert "this is not the key of" in caplog.text
    assert "the certificate that was read before stays" in caplog.text

    shutil.copy(next_key, key)
    clock.now += LOOK_SECONDS
    tls.renew()
    assert tls.pair == (next_key.read_bytes(), next_certificate.read_bytes())
    caplog.clear()

    key.unlink()
    clock.now += LOOK_SECONDS
    tls.renew()
    assert tls.pair == (next_key.read_bytes(), next_certificate.read_bytes())
    assert "no such file" in caplog.text
