"""KServe's protocol, version 2, over gRPC.

``front`` starts and stops it; ``call`` is a call from its begin to its status; the services are
``inference_service`` (with ``infer_stream``), ``health`` and ``reflection``; ``codec`` is between
messages of ``protos/kserve`` and what they say. It knows the models as a
`servers.contract.data_plane.DataPlane` only. Nothing is imported here: gRPC takes time to load, and
a server that only has HTTP does without.
"""
