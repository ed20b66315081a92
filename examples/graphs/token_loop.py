"""The calculator of token_loop.pbtxt: a generator of tokens with a toy for a model."""

from collections import deque

from graphrt import Calculator, CalculatorContext, In, Out, calculator


@calculator
class ToyGenerator(Calculator):
    """Answers each prompt with its own words in capitals, one token per cycle and request.

    Inputs: PROMPT, and LOOPBACK, a back edge from the output of that name.
    Outputs: TOKEN, one per open request and cycle; LOOPBACK, while something is left to do.
    """

    prompt = In[str]("PROMPT")
    again = In[bool]("LOOPBACK")
    token = Out[str]("TOKEN")
    loopback = Out[bool]("LOOPBACK")

    # Outputs have timestamps of their own: the inputs have two clocks, which are unrelated.
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self.clock = 0
        self.requests: list[deque[str]] = []
        self.is_cycling = False

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.prompt):
            self.requests.append(deque(cc.get(self.prompt).split()))
        if not cc.is_empty(self.again):
            self.is_cycling = False
            for words in self.requests:
                self.emit_token(cc, words.popleft().upper())
            self.requests = [words for words in self.requests if words]
        if self.requests and not self.is_cycling:
            self.is_cycling = True
            cc.emit(self.loopback, True, at=self.clock)
            self.clock += 1

    def emit_token(self, cc: CalculatorContext, text: str) -> None:
        cc.emit(self.token, text, at=self.clock)
        self.clock += 1
