"""Answers of a given form: what a client asks for becomes a grammar that the engine can follow.

``request_grammar`` says what form an answer has, from the fields of a request. The grammar process
(``process``; the server's side is ``client``) turns the form into a grammar (``form_grammar``) and
tries it on a pipeline that may break (``tiny_pipeline``), because a grammar that the engine does
not like would end the engine. Grammars are written here, rule by rule, and not left to the
engine's library: its own way of reading JSON schemas and regular expressions drops keywords, and
takes minutes over harmless ones.
"""
