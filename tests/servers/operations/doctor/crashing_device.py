"""A child process that ends as one with a broken driver does."""

import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
