"""The schemas of the OpenAPI document that are not made from members of requests."""
