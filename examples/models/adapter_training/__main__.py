"""The command line: `python -m examples.models.adapter_training all` does everything.

Each command imports what it needs, so that `check` works without torch.
"""

import argparse
import logging
import sys
from pathlib import Path

from .styles import STYLES

EXAMPLES = Path(__file__).parents[2]
ADAPTERS = EXAMPLES / "graphs" / "adapters"
DEMO = EXAMPLES / "models" / "demo"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.models.adapter_training")
    parser.add_argument("command", choices=("train", "check", "all"))
    parser.add_argument("--model", type=Path, default=DEMO, help="folder of the model")
    parser.add_argument("--adapters", type=Path, default=ADAPTERS, help="a folder for all adapters")
    parser.add_argument("--style", choices=tuple(STYLES), help="only this one")
    parser.add_argument("--steps", type=int, help="training steps")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    styles = [arguments.style] if arguments.style else list(STYLES)
    if arguments.command in ("train", "all"):
        from .training import Settings, train

        settings = Settings(steps=arguments.steps or Settings.steps)
        for style in styles:
            train(style, arguments.model, arguments.adapters / style, settings)
    if arguments.command in ("check", "all"):
        from .scorecard import check

        passed = [check(arguments.model, arguments.adapters, style) for style in styles]
        return 0 if all(passed) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
