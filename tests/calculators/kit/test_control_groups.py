"""Limits of a container, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

from calculators.kit.machine import ControlGroups, available_memory


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(tmp_path: Path) -> ControlGroups:
    return ControlGroups.of_this_process(tmp_path / "proc", tmp_path / "cgroup")


def test_limits_of_version_two_are_found(tmp_path: Path) -> None:
    write(tmp_path / "proc", {"self/cgroup": "0::/pods/one\n"})
    own = {"pods/one/memory.max": "1073741824\n", "pods/one/cpu.max": "150000 100000\n"}
    write(tmp_path / "cgroup", own)
    assert read(tmp_path) == ControlGroups(memory_bytes=1 << 30, cores=1.5)


def test_a_parent_group_may_have_lower_limits(tmp_path: Path) -> None:
    write(tmp_path / "proc", {"self/cgroup": "0::/pods/one\n"})
    own = {"pods/one/memory.max": "max\n", "pods/one/cpu.max": "max 100000\n"}
    above = {"pods/memory.max": "2048\n", "pods/cpu.max": "50000 100000\n"}
    write(tmp_path / "cgroup", {**own, **above})
    assert read(tmp_path) == ControlGroups(memory_bytes=2048, cores=0.5)


def test_limits_of_version_one_are_found(tmp_path: Path) -> None:
    lines = "4:memory:/docker/one\n3:cpuset:/\n2:cpu,cpuacct:/docker/one\n"
    write(tmp_path / "proc", {"self/cgroup": lines})
    files = {
        "memory/docker/one/memory.limit_in_bytes": "4096\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cpu/docker/one/cpu.cfs_quota_us": "200000\n",
        "cpu/docker/one/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
    }
    write(tmp_path / "cgroup", files)
    assert read(tmp_path) == ControlGroups(memory_bytes=4096, cores=2.0)


def test_there_may_be_no_limits(tmp_path: Path) -> None:
    assert read(tmp_path) == ControlGroups()
    write(tmp_path / "proc", {"self/cgroup": "0::/\n4:memory:/\n"})
    write(tmp_path / "cgroup", {"memory/memory.limit_in_bytes": "9223372036854771712\n"})
    assert read(tmp_path) == ControlGroups()


def free(tmp_path: Path) -> int | None:
    return available_memory(tmp_path / "proc", tmp_path / "cgroup")


def test_free_memory_is_the_least_of_machine_and_groups(tmp_path: Path) -> None:
    assert free(tmp_path) is None
    machine = {"meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n", "self/cgroup": "0::/one\n"}
    write(tmp_path / "proc", machine)
    assert free(tmp_path) == 8000 * 1024
    stat = "anon 1\ninactive_file 500\n"
    own = {"one/memory.max": "4000", "one/memory.current": "3000", "one/memory.stat": stat}
    write(tmp_path / "cgroup", own)
    assert free(tmp_path) == 1500
    write(tmp_path / "proc", {"self/cgroup": "4:memory:/one\n"})
    own = {
        "memory/one/memory.limit_in_bytes": "4000",
        "memory/one/memory.usage_in_bytes": "3500",
    }
    write(tmp_path / "cgroup", own)
    assert free(tmp_path) == 500
