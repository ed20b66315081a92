"""Answering the requests of batches: in a server's worker process, or for `graphrt batch`."""
