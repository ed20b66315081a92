"""A form's uploads by name, and its texts as the object that JSON would have been.

Forms have only texts. The schema of a member gives the type of its text, so a request that comes as
a form is read by the same declarations as one that comes as JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from calculators.kit.requests.fields import invalid, missing
from calculators.kit.requests.http_payload import FormFile, MultipartForm
from calculators.kit.requests.members import Members, Standing
from calculators.kit.requests.schema import Schema


def find_file(form: MultipartForm, name: str) -> FormFile | None:
    """Return the upload of that name; None without one.

    Raises:
        RequestError: there are several, or the form has a text of that name.
    """
    found = files_of(form, name)
    if len(found) > 1:
        raise invalid(name, f"expected one file, got {len(found)}")
    return found[0] if found else None


def required_file(form: MultipartForm, name: str) -> FormFile:
    """Return the upload of that name.

    Raises:
        RequestError: there is none, or there are several.
    """
    found = find_file(form, name)
    if found is None:
        raise missing(name, "it is a file of the form")
    return found


def files_of(form: MultipartForm, name: str) -> list[FormFile]:
    """Return the uploads of that name, or of that name with ``[]``, as clients write lists.

    Raises:
        RequestError: the form has a text of that name.
    """
    names = (name, f"{name}[]")
    if any(each in form.fields for each in names):
        raise invalid(name, "expected a file, got a text: a file's part has a filename")
    return [upload for each in names for upload in form.files.get(each, ())]


_NUMBER: Final = re.compile(r"-?[0-9]{1,64}(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_TRUTHS: Final = {"true": True, "false": False}
#: Texts of a member that is not a string and that is absent: libraries write null as "null".
NOTHING: Final = frozenset({"", "null"})


def form_members(form: MultipartForm, known: Members) -> dict[str, Any]:
    """Return the texts of ``form`` as a JSON object, for `read_members`.

    A text of a member that is a number or a boolean is read as one, a text of a member that is only
    an object as JSON; a text that does not parse stays a string, which the member's reader refuses.
    A member that is an array has its texts in order, under its name with or without ``[]``. An
    empty text of a member that is one of a few words, or no string, is as good as absent, and so is
    "null".

    Raises:
        RequestError: a known member that is no array occurs twice.
    """
    body: dict[str, Any] = {}
    for name, texts in form.fields.items():
        plain = name.removesuffix("[]")
        member = known.get(plain)
        if member is None:
            # Maybe an array of something unknown, which is none of the server's business.
            body[name] = texts[0] if len(texts) == 1 else texts
            continue
        schema = member.schema()
        kinds = _kinds(schema)
        if member.standing is Standing.REFUSED:
            body[plain] = [
                text for text in texts if text.strip().lower() not in {*NOTHING, "false"}
            ]
        elif "array" in kinds:
            items = schema.get("items", {})
            values = [_value_or_nothing(text, items) for text in texts]
            if texts and values != [None]:
                body.setdefault(plain, []).extend(values)
        else:
            body[plain] = _value_or_nothing(_single(name, texts), schema)
    return body


def _value_or_nothing(text: str, schema: Schema) -> Any:
    is_word = any("enum" in each for each in (schema, *schema.get("anyOf", ())))
    is_word &= text.strip() in NOTHING
    return None if is_word else _value(text, _kinds(schema))


def _single(name: str, texts: list[str]) -> str:
    if len(texts) > 1:
        raise invalid(name, f"expected one value, got {len(texts)}")
    return texts[0]


def _kinds(schema: Schema) -> set[str]:
    """Return the JSON types of a schema's values; {"string"} if it does not say."""
    kind = schema.get("type")
    if isinstance(kind, str):
        found = {kind}
    elif isinstance(kind, list):
        found = set(kind)
    else:
        forms = [form for form in schema.get("anyOf", ()) if form.get("type") != "null"]
        found = {each for form in forms for each in _kinds(form)}
    return found - {"null"} or {"string"}


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is there twice")
    return made


def _value(text: str, kinds: set[str]) -> Any:
    if "string" in kinds:
        return text
    bare = text.strip()
    if bare.lower() in NOTHING:
        return None
    if "boolean" in kinds and bare.lower() in _TRUTHS:
        return _TRUTHS[bare.lower()]
    if kinds & {"integer", "number"} and _NUMBER.fullmatch(bare):
        return int(bare) if bare.lstrip("-").isdigit() else float(bare)
    if "object" in kinds:
        try:
            found = json.loads(text, object_pairs_hook=_without_doubles)
            # As strict as a body, so no NaN, infinity or half of a surrogate pair either.
            json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError):
            return text
    return text
