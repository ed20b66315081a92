"""Error texts of libraries, without the paths of their build machines and of this machine."""

from __future__ import annotations

import pytest

from calculators.kit.child_process.library_errors import library_reason

CASES = {
    "checks and places": (
        "Exception from src/inference/src/cpp/core.cpp:84:\n"
        "Check 'is_valid(size)' failed at src/core/xml_util/src/deserialize.cpp:900:\n"
        "Incorrect weights in bin file!\n\n",
        "Incorrect weights in bin file!",
    ),
    "folders of files": (
        'Unable to read the model: "/home/user/models/demo/openvino_model.xml" Please check it',
        'Unable to read the model: "openvino_model.xml" Please check it',
    ),
    "folders with dots": (
        'Cannot load library "/opt/venv/lib/openvino/../libs/libplugin.so": no such file',
        'Cannot load library "libplugin.so": no such file',
    ),
    "places within a line": (
        "error at /build/cpp/file.cpp:12:34: the value is wrong",
        "error the value is wrong",
    ),
    "folders with spaces": (
        "cannot read '/home/a user/my models/demo/openvino_model.bin'",
        "cannot read 'openvino_model.bin'",
    ),
    "two files": (
        "cannot read /data/in.txt or write /data/out.txt",
        "cannot read in.txt or write out.txt",
    ),
    "caught exceptions": (
        "Caught exception: Exception from src/core/src/model.cpp:12:\n"
        "Caught exception: Exception from src/core/src/node.cpp:12: the shape is wrong",
        "the shape is wrong",
    ),
    "no places": ("weights.h5 has no layers", "weights.h5 has no layers"),
    "windows places": (
        r"C:\build\src\core.cpp:12: the value is wrong",
        "the value is wrong",
    ),
    "addresses": ("no node at 0x7ffd12345678 here", "no node at an address here"),
    "several lines": ("first\n\n  second   third\n", "first second third"),
    "only noise": ("Check 'a' failed at b.cpp:1:\n", "the library gave no reason"),
    "nothing": ("", "the library gave no reason"),
    "no folders at all": ("and/or 3/4 of a/b", "and/or 3/4 of a/b"),
}


@pytest.mark.parametrize("name", CASES)
def test_reasons_are_cleaned(name: str) -> None:
    text, expected = CASES[name]
    assert library_reason(text) == expected
    assert library_reason(RuntimeError(text)) == expected


def test_long_reasons_are_cut() -> None:
    assert len(library_reason("word " * 1000)) == 400
