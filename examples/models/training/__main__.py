"""The command line: `python -m examples.models.training all` does everything.

Each command imports what it needs, so that `check` works without torch.
"""

import argparse
import logging
import random
import sys
from pathlib import Path

WORK = Path("build/demo_model")
DEMO = Path(__file__).parents[1] / "demo"
DRAFT = Path(__file__).parents[1] / "demo_draft"
COMMANDS = ("data", "train", "export", "check", "all", "draft")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.models.training")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--work", type=Path, default=WORK, help=f"checkpoints (default {WORK})")
    parser.add_argument("--model", type=Path, default=DEMO, help="folder of the exported model")
    parser.add_argument("--steps", type=int, help="training steps")
    parser.add_argument("--minutes", type=float, default=600.0, help="at most so long")
    parser.add_argument("--show", type=int, default=20, help="how many texts `data` prints")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("-v", "--verbose", action="store_true", help="print each checked answer")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    if arguments.command == "data":
        from .mixture import document

        rng = random.Random(arguments.seed)
        for _ in range(arguments.show):
            sys.stdout.write(document(rng) + "\n\n")
        return 0
    if arguments.command == "draft":
        from .draft_run import DraftSettings, train_draft
        from .export import export_draft

        of_draft = DraftSettings(
            steps=arguments.steps or DraftSettings.steps,
            minutes=min(arguments.minutes, DraftSettings.minutes),
        )
        train_draft(arguments.work, of_draft)
        export_draft(arguments.work / "draft", arguments.model, DRAFT)
    if arguments.command in ("train", "all"):
        from .training_run import Settings, train

        settings = Settings(
            seed=arguments.seed, steps=arguments.steps or Settings.steps, minutes=arguments.minutes
        )
        train(arguments.work, settings)
    if arguments.command in ("export", "all"):
        from .export import export

        export(arguments.work / "model", arguments.model)
    if arguments.command in ("check", "all"):
        from .scorecard import check

        return 0 if check(arguments.model, arguments.verbose) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
