"""What the requests of a turn used, as the APIs report it: those of its workers with it."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_ahp.agents.base import Json, TurnSink
from jupyter_ahp.protocol.meta import COST


@dataclass(slots=True)
class Tally:
    """One turn's. `above` is that of the turn which a worker works for."""

    sink: TurnSink
    above: Tally | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost: float = 0.0
    """US dollars, where the API says it."""

    def add(
        self,
        *,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cost: float = 0.0,
        model: str | None = None,
    ) -> None:
        """One more request; said at once."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cache_read_tokens += cache_read_tokens
        self.cost += cost
        self.model = model or self.model
        if self.input_tokens or self.output_tokens:
            meta: Json | None = None
            if self.cost:
                meta = {COST: {"amount": round(self.cost, 6), "currency": "USD"}}
            self.sink.usage(
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                cache_read_tokens=self.cache_read_tokens or None,
                model=self.model,
                meta=meta,
            )
        if self.above is not None:
            self.above.add(
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cache_read_tokens=cache_read_tokens,
                cost=cost,
            )
