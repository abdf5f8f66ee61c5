"""A model server on loopback that does what the last user message tells it, for tests.

```python
with MockModel() as model:
    ...  # an OpenAI-compatible client at model.base_url
    assert model.requests[-1].texts[-1] == ("user", "!!text hello")
```

See `script.py` for what a message can say. `python -m tests.mock_model --port 8123` runs it by itself.
"""

from tests.mock_model.script import Step, parse
from tests.mock_model.server import MockModel, Request

__all__ = ["MockModel", "Request", "Step", "parse"]
