"""Findings about a machine: shortages and errors, with remedies and without secrets."""

from __future__ import annotations

import json
import re
import resource
import tomllib
from pathlib import Path

import pytest

from calculators.kit.machine import ControlGroups
from servers.operations.doctor import NEEDED, Report, Section, environment, machine, software
from tests.support.checkout import ROOT

_CPU = "model name\t: Some Processor\nflags\t\t: sse4_2 avx2 fma nonsense\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "cpuinfo").write_text(_CPU)
    (tmp_path / "meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    return tmp_path


def messages(section: Section) -> str:
    return "\n".join(remark.message for remark in section.remarks)


def test_processor_and_memory_are_reported(proc: Path) -> None:
    facts = machine(proc, ControlGroups()).facts
    assert facts["processor"] == "Some Processor"
    assert facts["instructions"] == ["sse4_2", "avx2", "fma"]
    assert facts["memory, MiB"] == 8192
    assert facts["memory available, MiB"] == 4096


def test_a_small_container_gives_warnings(proc: Path) -> None:
    section = machine(proc, ControlGroups(memory_bytes=512 << 20, cores=0.5))
    assert section.facts["memory by control group, MiB"] == 512
    assert "512 MiB of memory" in messages(section)
    assert "the control group allows 0.5 cores" in messages(section)


def test_few_descriptors_give_a_warning(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (256, 256))
    (remark,) = machine(proc, ControlGroups()).remarks
    assert remark.message.startswith("256 descriptors")
    assert "ulimit -n" in remark.hint


def test_the_requirements_are_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[^A-Za-z0-9-]", each)[0] for each in project["dependencies"]}
    assert names == {*NEEDED, "uvloop"}


def test_a_missing_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.operations.doctor.NEEDED", ("no-such-library",))
    remark = next(each for each in software().remarks if each.severity == "error")
    assert remark.message == "no-such-library is not installed"
    assert remark.hint == "pip install no-such-library"


def test_packages_of_others_under_our_names_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.operations.doctor.clashes", lambda: [("servers", "acme")])
    assert "also in the distribution acme" in messages(software())


def test_only_names_of_variables_are_reported() -> None:
    secret = "hunter2"
    told = environment(
        {
            "API_KEY": secret,
            "OTEL_EXPORTER_OTLP_HEADERS": secret,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"https://user:{secret}@collector",
            "OVMS_TOKEN": secret,
            "OMP_NUM_THREADS": "4",
            "OV_FRONTEND_PATH": "",
            "UNRELATED": secret,
        }
    )
    assert told.facts["OMP_NUM_THREADS"] == "4"
    assert told.facts["OV_FRONTEND_PATH"] == "(empty)"
    assert told.facts["API_KEY"] == "(set)"
    assert "UNRELATED" not in told.facts
    assert secret not in json.dumps(Report([told]).to_json())


def test_errors_precede_warnings_and_fail_the_check() -> None:
    first, second = Section("first"), Section("second", {"fact": None})
    first.warn("may be wrong")
    assert Report([first, second]).is_well
    second.error("is wrong", "do this")
    report = Report([first, second])
    assert not report.is_well
    assert report.to_text().endswith("error: is wrong\nhint: do this\nwarning: may be wrong")
