"""The uploads of a form, by name."""

from __future__ import annotations

from calculators.kit.requests.fields import invalid, missing
from calculators.kit.requests.multipart_form import FormFile, MultipartForm


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
