"""Every block of `docs/python.md`, one after the other, as the cells of a real kernel of a real server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mock_model import MockModel
from tests.notebook.kernels import Kernel
from tests.support.server import Home, JupyterServer

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = "http://localhost:8888/?token=…"

AGENT = '''
import asyncio, json
from jupyter_ahp.agents.base import Agent, Capabilities, Conversation, Probe

class Reader(Agent):
    """Answers by form where one is asked for; a message that says "wait" is answered when it is steered."""

    provider, display_name, description = "reader", "Reader", "For the page"
    capabilities = Capabilities(fork=True, steering=True)
    async def probe(self): return Probe(ready=True)
    async def open(self, start): return Reading()

class Reading(Conversation):
    def __init__(self): self.steering = asyncio.Queue()
    async def steer(self, message):
        self.steering.put_nowait(message)
        return True
    async def withdraw(self, message_id): return False
    async def send(self, prompt, sink):
        if prompt.text == "wait":
            message = await self.steering.get()
            sink.steering_read(message.id)
        form = [block.text for block in prompt.blocks if block.label == "The form of the answer"]
        if not form:
            return sink.markdown(prompt.text)
        schema = json.loads(form[0].partition("\\n")[2])
        schema = schema.get("$defs", {}).get("Column", schema)
        made = {name: 3 if kind["type"] == "integer" else name for name, kind in schema["properties"].items()}
        sink.markdown(json.dumps(made))

def register(host): host.register_agent(Reader())
'''

BEFORE = {
    "chat = Chat.open(uri)": "uri = Chat().uri",
    'Data("plot.png", png)': (
        "import pandas, io\n"
        "df = pandas.DataFrame({'year': [2020, 2021], 'sales': [1, 2]})\n"
        "from matplotlib.figure import Figure\n"
        "figure = Figure(); figure.subplots().plot([1, 2])\n"
        "png = io.BytesIO(); figure.savefig(png); png = png.getvalue(); log = 'It failed.'\n"
        "other = Chat()\n"
    ),
    "later = chat.queue": "import time; chat.queue('wait')\nwhile not chat.turns[-1].state == 'running': time.sleep(0.01)",
    "chat.show(8050)": (
        "import http.server, threading\n"
        "web = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=web.serve_forever, daemon=True).start()"
    ),
    "chat.rewind(turn)": "turn = chat.send('A turn'); chat.send('Another')",
}
"""What a block needs that its reader has: what to run before the one that has these words."""


@pytest.fixture
def model() -> Iterator[MockModel]:
    with MockModel() as model:
        yield model


def test_every_block_of_the_page_runs(
    home: Home, with_server: Callable[..., JupyterServer], model: MockModel
) -> None:
    home.make()
    code = home.root / "code"
    code.mkdir()
    (code / "for_the_page.py").write_text(AGENT)
    (home.files / "sales.csv").write_text("year,sales\n2020,1\n")
    (home.files / "report.html").write_text("<h1>Report</h1>")
    (home.files / "plots").mkdir()
    (home.root / "home" / "sales").mkdir()
    paths = home.environment()["PYTHONPATH"]
    server = with_server(
        env={"PYTHONPATH": f"{code}:{paths}", "OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"},
        args=["--AHPExtension.plugins=for_the_page:register", "--AHPExtension.default_agent=reader"],
    )
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) >= 9
    needed = dict(BEFORE)
    with Kernel(server) as kernel:
        kernel.run("from jupyter_ahp import Chat")
        for number in range(2):
            kernel.run(f"cell = {number}")
        with pytest.raises(AssertionError, match="ZeroDivisionError"):
            kernel.run("1 / 0")
        for block in blocks:
            for words in [words for words in needed if words in block]:
                kernel.run(needed.pop(words))
            block = block.replace(ELSEWHERE, f"{server.url}?token={server.token}")
            kernel.run(block.replace("(8050)", "(web.server_port)"), timeout=120)
            if "host=connect" in block:
                kernel.run("chat = Chat()")
        values = kernel.printed("print(turn.value if turn.value else table)")
    assert not needed, "the page has none of these blocks any more"
    assert values
