"""The server's OpenAPI document: every route, its requests, and all its answers.

`document` assembles it once, when a server starts. Each API has a file with its operations and
schemas. Limits and lists of words come from the code that checks them.
"""
