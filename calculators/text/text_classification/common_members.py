"""Members of the requests of all endpoints."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.members import honoured
from calculators.kit.requests.readers import STRING, Value

MODEL: Final = honoured(
    "model", STRING, "The name of the model; by default the only one of these tasks.", minLength=1
)
TIMEOUT: Final = honoured("timeout", Value())  # the front reads it, and knows the schema
