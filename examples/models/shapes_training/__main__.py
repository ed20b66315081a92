"""The command line: `python -m examples.models.shapes_training all` does everything.

Each command imports what it needs, so that `check` works without torch.
"""

import argparse
import logging
import sys
from pathlib import Path

WEIGHTS = Path("build/shapes_model/weights.pt")
SHAPES = Path(__file__).parents[1] / "shapes"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.models.shapes_training")
    parser.add_argument("command", choices=("train", "export", "check", "all"))
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help=f"default {WEIGHTS}")
    parser.add_argument("--model", type=Path, default=SHAPES, help="folder of the exported model")
    parser.add_argument("--steps", type=int, help="training steps, at most")
    parser.add_argument("--minutes", type=float, help="of training, at most")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    if arguments.command in ("train", "all"):
        from .training import Settings, train

        settings = Settings(
            steps=arguments.steps or Settings.steps, minutes=arguments.minutes or Settings.minutes
        )
        train(arguments.weights, settings)
    if arguments.command in ("export", "all"):
        from .export import export

        export(arguments.weights, arguments.model)
    if arguments.command in ("check", "all"):
        from .scorecard import check

        return 0 if check(arguments.model) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
