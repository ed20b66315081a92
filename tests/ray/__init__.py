"""`graphrt serve --on ray` with a Ray cluster on this machine; without Ray, they are skipped."""
