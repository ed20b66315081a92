"""KServe's protocol, version 2, over gRPC: messages of ``protos/kserve`` and what they say."""
