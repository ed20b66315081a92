"""Files and batches: OpenAI's objects, the store that keeps them, and their life in a server.

`servers.batch_work` answers the requests of batches, in a process of its own.
"""
