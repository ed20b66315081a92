"""The contract between fronts and models: data plane, failures, findings, disconnection."""
