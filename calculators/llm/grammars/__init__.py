"""Grammars of answers: the form that a client asks for, as rules that the engine follows.

A form is composed of ``formats``; ``form_grammar`` converts it, in the grammar process. Schemas
(``schema_rules``), regular expressions (``regular_expression``) and grammars of clients (``ebnf``)
become ``rules`` here, and are not left to the engine's library, which drops keywords of JSON
schemas and takes minutes over harmless regular expressions.
"""
