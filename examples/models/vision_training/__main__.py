"""The command line: `python -m examples.models.vision_training all` does everything.

Each command imports what it needs, so that `check` works without torch.
"""

import argparse
import logging
import random
import sys
from pathlib import Path

COMMANDS = ("data", "train", "export", "pictures", "check", "all")
CHECKPOINT = Path("build/shapes_vlm")
MODEL = Path(__file__).parents[1] / "shapes_vlm"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.models.vision_training")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, help=f"default {CHECKPOINT}")
    parser.add_argument("--model", type=Path, default=MODEL, help="folder of the exported model")
    parser.add_argument("--sight-minutes", type=float, help="of the first lesson, at most")
    parser.add_argument("--minutes", type=float, help="of the second lesson, at most")
    parser.add_argument("--go-on", action="store_true", help="train what is in the checkpoint more")
    parser.add_argument("--seed", type=int, default=11)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    if arguments.command == "data":
        from .conversations import conversation

        rng = random.Random(arguments.seed)
        for _ in range(20):
            sys.stdout.write(conversation(rng).text + "\n\n")
    if arguments.command in ("train", "all"):
        from .training import Settings, train

        settings = Settings(
            seed=arguments.seed,
            sight_minutes=arguments.sight_minutes or Settings.sight_minutes,
            minutes=arguments.minutes or Settings.minutes,
        )
        train(arguments.checkpoint, settings, go_on=arguments.go_on)
    if arguments.command in ("export", "all"):
        from .export import export

        export(arguments.checkpoint, arguments.model)
    if arguments.command in ("pictures", "all"):
        from .example_pictures import write_examples

        write_examples(arguments.model / "pictures")
    if arguments.command in ("check", "all"):
        from .scorecard import check

        return 0 if check(arguments.model) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
