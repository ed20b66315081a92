"""The files for Kubernetes, checked without a cluster."""
