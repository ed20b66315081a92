"""KServe's protocol, version 2, over gRPC.

``front`` starts and stops it; ``call`` handles a call from its start to its status; the services
are ``inference_service`` (with ``infer_stream``), ``health`` and ``reflection``; ``codec`` converts
messages of ``protos/kserve``. It knows the models only as a
`servers.contract.data_plane.DataPlane`. Nothing is imported here: gRPC takes time to load, and a
server without it should start faster.
"""
