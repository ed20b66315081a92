"""``python -m servers.cli``."""

import sys

from servers.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
