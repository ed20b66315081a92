"""Parts that every family of models uses: tasks, options, requests, child processes, caches."""
