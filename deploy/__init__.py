"""Files for running graphrt as a service, and the making of a release."""
