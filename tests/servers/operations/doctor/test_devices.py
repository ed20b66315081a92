"""OpenVINO's devices, and failures to list them, are findings."""

from __future__ import annotations

from servers.operations.doctor import devices


def test_the_processor_is_a_device() -> None:
    section = devices()
    assert section.remarks == []
    assert str(section.facts["OpenVINO"]).startswith("20")
    assert "FP32" in str(section.facts["CPU"])


def test_a_crash_is_a_finding() -> None:
    section = devices("tests.servers.operations.doctor.crashing_device")
    (remark,) = section.remarks
    assert remark.severity == "error"
    assert "it was ended by SIGKILL" in remark.message
    assert "driver" in remark.hint


def test_silence_is_a_finding() -> None:
    section = devices("tests.servers.operations.doctor.silent_device", seconds=0.2)
    (remark,) = section.remarks
    assert remark.severity == "error"
    assert "it has not answered for 0.2 s" in remark.message
