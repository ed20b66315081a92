"""A child process that ends like one with a broken driver."""

import os
import signal

os.kill(os.getpid(), signal.SIGKILL)
