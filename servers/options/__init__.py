"""Declarations of the options of `graphrt serve`: flag, value, default, help, key of config."""
