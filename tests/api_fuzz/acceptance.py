"""Checks of schemathesis: what the document allows is accepted, and what it does not is refused.

They are schemathesis's ``positive_data_acceptance`` and ``negative_data_rejection`` with two
corrections. Whether the document allows a body is what a validator of JSON schemas says, since
schemathesis leaves keywords out when it combines values. And a refusal for a reason that no schema
can express is none: `BEYOND_SCHEMAS` lists these reasons, which the document has in words.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from calculators.kit.requests.fields import COMBINED
from tests.servers.fronts.openapi.described import Described

#: Texts of refusals that depend on the model, on the meaning of a text, or on other members.
BEYOND_SCHEMAS: Final = re.compile(
    "|".join(
        (
            # The model.
            r"does not (read (images|audio)|take videos)",
            r"shows nothing of a message of the role",
            r"this model's chat template has no place for documents",
            r"served without a draft model",
            r"longer than the \d+ tokens that the model can hold",
            r"The model holds \d+ tokens",
            r"which this model can take beside the answer",
            r"is not in the (model's )?vocabulary",
            r"is beam search, which",
            r'for \\?"((sampling_params\.)?n|best_of|n_cmpl)\\?": \d+ is above',
            r'for \\?"generationConfig\.candidateCount\\?": \d+ is above',
            r"this model calls no tool servers",
            r"the chat template makes an empty prompt",
            r"does not hear: it takes no sound",
            r"lora_alphas is not supported when",
            r"text_input\\?\": the prompt is empty",
            r"is above the maximum of new tokens",
            r"dimensions? must be between 1 and \d+",
            r"longer than allowed \d+|no space left for chunks",
            r"the model takes no instruction|is no prompt of the model",
            r"no model answers POST at this path|models answer this path: name one",
            r"the body has no model: name one",
            r"this model cannot fill in text",
            r"is not used by this model|is greater than max|is above the maximum \d+x\d+",
            r"speed must be between|not found in available voices|Invalid language code",
            r"Word timestamps not supported for this model",
            # What a text means.
            r"the text is not JSON",
            r"the text has no tokens",
            r"structural_tag\\?\": expected an object",
            r"not a grammar",
            r"the expression|not a regular expression",
            r"is not written in Base64",
            r"expected (a reference|an array of schemas|an array with values|one of object, array)",
            r"no value is valid",
            r"is none of string, number, integer, boolean, array, object, null",
            r"expected a JSON schema \(an object\), got",
            r"the file is not text in UTF-8",
            r"excludes one of the triggers",
            r"must be a data: URL or http",
            r"sounds are not fetched; send the data: URL",
            r"input has nothing to speak",
            r"both sides must be multiples of \d+",
            r"(File|Image) parsing fail|is not valid wav nor mp3",
            # The files of the client, and the hosts that the operator allows.
            r"there is no (response|conversation) |expected the id of an item",
            r"this server keeps no files|has uploaded no such file|there is no such file",
            r"from the web are off|the file is not read here; send it as inlineData",
            # Other members, and their names.
            COMBINED,
            r"names none of the",
            r"needs tools",
            r"with suffix the prompt must be a text|text before the gap must be a text",
            r"cannot be paired with the \d+ of",
            r"document (text|member) field|none of the members that rank_fields names",
            r"is already that of|have the same name|another request has it",
            r"either previous_response_id or conversation|leaves no token to sample",
            r"already exists in request options",
            r"leaves no step to make|needs a guidance_scale above 1",
            r"Unknown member .*Did you mean",
            r"is there twice, inside and outside of parameters",
            r"another server has this label",
            r"structured output is already asked for",
            # The conversation as a whole.
            r"nothing is said in any of them|and nothing else is said",
            r"no text at its end that could be continued",
            r"calls tools, so it cannot be continued",
            # Limits of the whole request.
            r"must be the same for all texts of a batch|prompts of a request must have the same",
            r"a number beyond 64 bits|the shape .* has too many elements",
            r"of the form has no name",
            r"the form has more than \d+ parts",
            r"this path is a WebSocket's",
            r"; the JSON must have 1 to \d+ bytes",
            # The inputs, outputs and side packets of the model or graph that KServe's calls name.
            r"no such output of this model|there is no data: give it|; BYTES is made of strings",
            r"the model \\?\".*\\?\" has no (in|out)put ",
            r"the shape .* has \d+ elements, data has|the parameter .* needs more than 64 bits",
            r"the (in|out)puts? |the parameter \\?\".*is an array",
            r"text_input\\?\": one element is needed",
            r"is missing: the graph needs it as side packet",
            r"unknown datatype",
        )
    )
)


@schemathesis.check  # type: ignore[untyped-decorator]
def documented_requests_are_accepted(context: Any, response: Any, case: Any) -> None:
    """Fail if a request that the document allows is refused."""
    try:
        positive_data_acceptance(context, response, case)
    except AssertionError:
        if BEYOND_SCHEMAS.search(response.text) is None and _is_documented(case):
            raise


@schemathesis.check  # type: ignore[untyped-decorator]
def undocumented_requests_are_refused(context: Any, response: Any, case: Any) -> None:
    """Fail if a request that the document does not allow is accepted."""
    try:
        negative_data_rejection(context, response, case)
    except AssertionError:
        only_body = all(
            place is ParameterLocation.BODY or not component.mode.is_negative
            for place, component in case.meta.components.items()
        )
        if not (only_body and case.media_type in _READ and _is_documented(case)):
            raise


#: Paths with a form for each task, and the path with that of the fuzzed model.
_OF_MODEL: Final = {"/v3/tokenize": "/tokenize", "/v3/detokenize": "/detokenize"}
_READ: Final = ("application/json", "multipart/form-data")


def _is_documented(case: Any) -> bool:
    has_header = "Inference-Header-Content-Length" in (case.headers or {})
    if has_header or case.media_type == "application/octet-stream":
        return False  # how much of the body is JSON depends on its length
    if case.media_type not in _READ:
        return True
    described = _described(json.dumps(case.operation.schema.raw_schema))
    path = _OF_MODEL.get(case.operation.path, case.operation.path)
    body = case.body
    if case.media_type == "multipart/form-data" and isinstance(body, dict):
        # An empty text of a form is as good as absent, as the document has it in words, and an
        # empty array has no part. Files are of a type derived from `str`.
        body = {
            name: value
            for name, value in body.items()
            if value != [] and (type(value) is not str or value != "")
        }
    return not described.request_errors(path, body, case.media_type)


@cache
def _described(document: str) -> Described:
    return Described(document.encode())
