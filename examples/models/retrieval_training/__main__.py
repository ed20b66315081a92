"""The command line: `python -m examples.models.retrieval_training all` does everything."""

import argparse
import logging
import sys
from pathlib import Path

WORK = Path("build/retrieval_models")
MODELS = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.models.retrieval_training")
    parser.add_argument("command", choices=("train", "export", "all"))
    parser.add_argument("--work", type=Path, default=WORK, help=f"default {WORK}")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of both models")
    parser.add_argument("--steps", type=int, help="training steps, at most")
    parser.add_argument("--minutes", type=float, help="of training, at most")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    # Imported here, so that the help needs no torch.
    import torch
    from tokenizers import Tokenizer

    from .documents import read_sections, texts_of
    from .embedder import Settings, hits, make_embedder, save_weights, train
    from .export import export_embedder, export_ranker
    from .word_tokenizer import save_tokenizer, train_tokenizer

    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    weights = work / "weights.pt"
    if arguments.command in ("train", "all"):
        settings = Settings(
            steps=arguments.steps or Settings.steps, minutes=arguments.minutes or Settings.minutes
        )
        torch.manual_seed(settings.seed)
        sections = read_sections()
        known = [each for each in sections if not each.is_held_out]
        logging.info("%d sections, %d of them held out", len(sections), len(sections) - len(known))
        tokenizer = train_tokenizer(texts_of(known))
        model = make_embedder(tokenizer.get_vocab_size(), tokenizer.token_to_id("[PAD]"))
        train(model, tokenizer, sections, settings)
        logging.info("held-out hit@1 %.2f, hit@5 %.2f", *hits(model, tokenizer, sections))
        save_weights(model, weights)
        save_tokenizer(tokenizer, work)
    if arguments.command in ("export", "all"):
        tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
        export_embedder(weights, tokenizer, arguments.models / "docs_embedder")
        export_ranker(tokenizer, arguments.models / "docs_ranker")
    return 0


if __name__ == "__main__":
    sys.exit(main())
