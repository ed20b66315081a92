"""Bodies as clients send them, read the way a front reads them."""

from __future__ import annotations

import json
from typing import Any

from servers.kserve_rest import RestRequest, decode_request, split_body
from servers.openai_http.json_body import parse_json


def read(body: bytes, length_header: str | None = None) -> RestRequest:
    head, tail = split_body(body, length_header)
    value = parse_json(head, max_depth=100, max_elements=100_000)
    return decode_request(value, tail, model="m", version="1")


def read_value(value: object, tail: bytes = b"") -> RestRequest:
    head = json.dumps(value).encode()
    return read(head + tail, str(len(head)))


def one_input(datatype: str, shape: object, **members: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": datatype, "shape": shape, **members}
