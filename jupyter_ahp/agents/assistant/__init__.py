"""The assistant, an agent that runs in the server's own process.

`agent` is what the host sees, `models` which models there are, `history` what a model is told, `local` and `weights`
the small model, `runtime` and `failures` the model library, imported at the first message.
"""

from jupyter_ahp.agents.assistant.agent import AssistantAgent

__all__ = ["AssistantAgent"]
