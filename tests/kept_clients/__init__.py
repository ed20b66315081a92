"""Clients that rely on kept responses, against a server whose model follows a script."""
