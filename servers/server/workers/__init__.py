"""Several processes of one server: one supervisor, and workers that share its ports.

`crew.py` is the supervisor's side, `worker.py` a worker's. They talk by the messages of
`messages.py` over a socket pair.
"""
