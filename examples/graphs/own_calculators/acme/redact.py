"""A calculator with options and typed ports."""

from dataclasses import dataclass

from graphrt import Calculator, CalculatorContext, In, Options, Out, calculator, options


@options("acme.RedactOptions")
@dataclass(frozen=True)
class RedactOptions:
    """The options that graphs write in ``node_options``."""

    words: tuple[str, ...] = ()
    mask: str = "***"


@calculator("acme.Redact")
class Redact(Calculator):
    """Masks listed words, and counts them."""

    text = In[str]("TEXT")
    clean = Out[str]("TEXT")
    hits = Out[int]("HITS", optional=True)
    options = Options(RedactOptions)

    def open(self, cc: CalculatorContext) -> None:
        """Called once per run: a request, or a stream of requests."""
        self.total = 0

    def process(self, cc: CalculatorContext) -> None:
        """Called for each text."""
        text = cc.get(self.text)
        for word in self.options.words:
            self.total += text.count(word)
            text = text.replace(word, self.options.mask)
        cc.emit(self.clean, text)
        cc.emit(self.hits, self.total)
