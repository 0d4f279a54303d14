"""What the answers of a model cost: declared prices, counted exactly, and never less than was used."""

import os
from collections.abc import Mapping
from typing import Final, Self

import attrs

from fsm_agent.core.errors import ConfigError
from fsm_agent.core.plans import numbers
from fsm_agent.core.plans.faults import Faults

INPUT_PRICE: Final = "FSM_AGENT_LLM_PRICE_INPUT"
OUTPUT_PRICE: Final = "FSM_AGENT_LLM_PRICE_OUTPUT"
VARIABLES: Final[Mapping[str, str]] = {
    INPUT_PRICE: "price of a million tokens that it reads, such as 0.15; left out, they cost nothing",
    OUTPUT_PRICE: "price of a million tokens that it writes, such as 0.60; left out, they cost nothing",
}
"""Variables of the environment that say what a model costs, and what each means."""
MOST_MICROS: Final = 10**15
"""An answer is never counted as dearer than this, in millionths of the unit; whatever a server says of its tokens."""
_MILLION: Final = 1_000_000


@attrs.frozen(kw_only=True)
class Prices:
    """Prices of a million tokens, in millionths of the unit of money that plans count in.

    Attributes:
        input_micros: Of tokens that a model reads.
        output_micros: Of tokens that it writes.
    """

    input_micros: int = 0
    output_micros: int = 0

    @classmethod
    def from_env(cls) -> Self:
        """Return the prices that the environment declares (see :data:`VARIABLES`).

        Raises:
            ConfigError: One of them is no amount.
        """
        return cls(input_micros=_declared(INPUT_PRICE), output_micros=_declared(OUTPUT_PRICE))

    def of(self, read: int, written: int, total: int) -> int:
        """Return what an answer cost, in millionths of the unit, rounded up.

        Args:
            read: Tokens that the model read.
            written: Tokens that it wrote.
            total: All of them. What is in it beyond both was written unseen; where neither is known, the dearer
                price is taken for all.
        """
        if not read and not written:
            sum_ = total * max(self.input_micros, self.output_micros)
        else:
            sum_ = read * self.input_micros + max(written, total - read) * self.output_micros
        return min(MOST_MICROS, -(-sum_ // _MILLION))


FREE: Final = Prices()
"""Nothing is declared to cost anything."""


def _declared(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return 0
    faults = Faults()
    amount = numbers.money(faults, text, "", None)
    if amount is None:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ConfigError(f"model planner: ${name} is {shown!r}; write the {VARIABLES[name]}")
    return numbers.micros(amount)
