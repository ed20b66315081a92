"""Compile every ``.proto`` file below this folder into ``descriptor_set.binpb``.

Run ``python -m protos.generate`` after changing a ``.proto`` file. There is no generated Python
code: ``protos.pool`` builds the message classes from the descriptor set when they are first used,
so one checked-in file serves every supported version of protobuf.

Files are registered under their path relative to this folder. For MediaPipe's files that is the
path MediaPipe itself uses, so a ``.proto`` file written for MediaPipe compiles against this folder
unchanged: ``protoc -I protos -I . --python_out=. my_calculator.proto``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent
OUTPUT = ROOT / "descriptor_set.binpb"


def compiled() -> bytes:
    """The serialized ``FileDescriptorSet``, each file after the files it imports."""
    import grpc_tools  # type: ignore[import-untyped]
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted(str(path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*.proto"))
    # Not imported by any file here, but texts may hold them in an Any.
    sources.append("google/protobuf/wrappers.proto")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / OUTPUT.name
        arguments = [
            f"-I{ROOT}",
            f"-I{well_known}",
            "--include_imports",
            "--include_source_info",
            f"-o{output}",
            *sources,
        ]
        if protoc.main(["protoc", *arguments]) != 0:
            raise SystemExit("protoc refused the files above")
        return _with_comments_only(output.read_bytes())


def _with_comments_only(content: bytes) -> bytes:
    """The set without the source positions of uncommented elements, which are most of its size."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = FileDescriptorSet.FromString(content)
    for file in files.file:
        kept = [
            place
            for place in file.source_code_info.location
            if place.path and (place.leading_comments or place.trailing_comments)
        ]
        ours = not file.name.startswith("google/")
        file.ClearField("source_code_info")
        for place in kept if ours else []:
            file.source_code_info.location.add(
                path=place.path,
                leading_comments=place.leading_comments,
                trailing_comments=place.trailing_comments,
            )
    return files.SerializeToString(deterministic=True)


def main() -> None:
    content = compiled()
    OUTPUT.write_bytes(content)
    print(f"{OUTPUT}: {len(content)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
