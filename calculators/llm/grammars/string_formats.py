"""The string formats of JSON schemas that answers can be given.

Source: JSON Schema 2020-12 validation, section 7.3, and the RFCs that it names. Where a format has
many spellings, local names and literal addresses are left out.
"""

from __future__ import annotations

from typing import Final

_DATE: Final = r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])" + (
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL: Final = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
#: A label of a host name, of up to 31 letters, and how many more may follow: RFC 1123 allows labels
#: of 63 letters and names of 253.
LABEL: Final = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,15}"
MORE_LABELS: Final = 6
_PATH: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"

PATTERNS: Final = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": (
        r"P(?:\d{1,9}W|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)"
        r"(?:T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))?"
        r"|T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))"
    ),
    "email": (
        r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*\.[A-Za-z]{2,18}"
    ),
    "hostname": rf"{LABEL}(?:\.{LABEL}){{0,{MORE_LABELS}}}",
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "ipv6": (
        r"(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|::(?:[0-9A-Fa-f]{1,4}:){0,5}[0-9A-Fa-f]{1,4}|::"
        r"|[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,4}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){1}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,3}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){2}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,2}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){3}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,1}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4}::"
    ),
    "uuid": r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    "uri": (
        rf"[A-Za-z][A-Za-z0-9+.-]*:(?://(?:{_LABEL})(?:\.{_LABEL})*(?::\d{{1,5}})?(?:/{_PATH})?"
        rf"|[A-Za-z0-9._~-]{_PATH})(?:\?{_PATH})?(?:#{_PATH})?"
    ),
    # Without an authority, and without a colon in a first segment, which would be a scheme.
    "uri-reference": (
        rf"(?:/(?:[A-Za-z0-9._~-]{_PATH})?|[A-Za-z0-9._~-]+(?:/{_PATH})?)"
        rf"(?:\?{_PATH})?(?:#{_PATH})?"
    ),
    "json-pointer": r"(?:/(?:[^/~]|~[01])*)*",
    "relative-json-pointer": r"(?:0|[1-9]\d{0,8})(?:#|(?:/(?:[^/~]|~[01])*)*)",
}
#: Addresses whose length is bounded: a beginning, its most letters, and what may follow any number
#: of times, of up to three letters.
LONG_URI: Final = (
    r"[a-z][a-z0-9+-]{1,9}://[A-Za-z0-9]",
    14,
    r"(?:[A-Za-z0-9._~!$&'()*+,;=/?-]|%[0-9A-Fa-f][0-9A-Fa-f])",
)
#: Formats of which only texts of another one are written, which are valid by both.
NARROWER: Final = {
    "idn-email": "email",
    "idn-hostname": "hostname",
    "iri": "uri",
    "iri-reference": "uri-reference",
}
#: The standard's formats that are not supported; any other name is a note for people.
MISSING: Final = frozenset({"uri-template", "regex"})
