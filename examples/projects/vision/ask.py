"""Sends a JPEG or PNG to the server and prints the answer: python ask.py FILE [URL]."""

import json
import struct
import sys
import urllib.request
from pathlib import Path


def main(file: str, address: str = "http://127.0.0.1:8000") -> None:
    """Send the file as a tensor of raw bytes, after KServe's binary extension."""
    picture = Path(file).read_bytes()
    element = struct.pack("<I", len(picture)) + picture
    tensor = {
        "name": "image",
        "datatype": "BYTES",
        "shape": [1],
        "parameters": {"binary_data_size": len(element)},
    }
    header = json.dumps({"inputs": [tensor]}).encode()
    request = urllib.request.Request(
        f"{address}/v2/models/project-name/infer",
        header + element,
        {"Inference-Header-Content-Length": str(len(header))},
    )
    with urllib.request.urlopen(request) as response:
        outputs = json.load(response)["outputs"]
    for output in outputs:
        print(f"{output['name']}: {output['data']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
