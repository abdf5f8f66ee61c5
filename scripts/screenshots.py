"""Draws the documentation's pictures: a real JupyterLab, a scripted model, a real browser.

python scripts/screenshots.py      # needs Chromium and the built extension, as the browser tests do
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from playwright.async_api import expect  # noqa: E402

from tests.browser.lab import PATIENCE, Lab, open_lab, write_notebook  # noqa: E402
from tests.mock_model import MockModel  # noqa: E402
from tests.support.server import Home, JupyterServer  # noqa: E402

IMAGES = ROOT / "docs" / "images"

SETUP = """\
import random
import statistics as st

random.seed(1)
heights = [random.gauss(172, 9) for _ in range(200)]
f"{st.mean(heights):.1f} cm, n = {len(heights)}"\
"""

QUESTION = "How sure can I be of the mean? n = 200, the standard deviation is about 9 cm."
ANSWER = r"""Quite sure. The standard error of a mean is

$$\mathrm{SE} = \frac{s}{\sqrt{n}} = \frac{9}{\sqrt{200}} \approx 0.64\ \text{cm}$$

so a 95 % interval is about **± 1.3 cm**. From your data:

```python
se = st.stdev(heights) / len(heights) ** 0.5
st.mean(heights) - 1.96 * se, st.mean(heights) + 1.96 * se
```"""
FOLLOW_UP = "And if the heights were not normal?"
SECOND = "With 200 values the mean is close to normal anyway, whatever the heights are like (central limit theorem)."


async def draw(folder: Path) -> None:
    chromium = shutil.which("chromium") or sys.exit("There is no chromium.")
    with MockModel() as model:
        home = Home(folder)
        model.model = "example-model"
        model.answers = {QUESTION: ANSWER, FOLLOW_UP: SECOND}
        env = {"OPENAI_API_KEY": "sk-for-pictures", "OPENAI_BASE_URL": model.base_url}
        server = JupyterServer(home, module="jupyterlab", args=["--expose-app-in-browser"], env=env)
        home.make()
        settings = home.config / "labconfig"
        settings.mkdir()
        (settings / "default_setting_overrides.json").write_text(
            '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}'
        )
        write_notebook(
            home.files / "heights.ipynb", [SETUP, "from jupyter_ahp import Chat\nchat = Chat()\nchat"]
        )
        server.start(timeout=120)
        try:
            drawn = folder / "drawn"
            async with open_lab(server, chromium, folder / "profile", shots=drawn) as lab:
                await conversation(lab)
                await lab.shot("lab-light")
                await lab.theme("JupyterLab Dark")
                await lab.shot("lab-dark")
            shutil.copytree(drawn, IMAGES, dirs_exist_ok=True)
        finally:
            server.stop()


async def conversation(lab: Lab) -> None:
    await lab.page.set_viewport_size({"width": 1320, "height": 860})
    await lab.execute("application:toggle-left-area")
    await lab.open_panel()
    await lab.open_notebook("heights.ipynb")
    await lab.run_cells()
    await expect(lab.widget.composer).to_be_visible(timeout=PATIENCE)
    await lab.widget.say(QUESTION)
    await lab.widget.shows("From your data")
    await lab.widget.ended()
    chats = lab.page.get_by_role("navigation", name="Chats")
    await chats.get_by_text(QUESTION[:20]).click()
    await lab.panel.say(FOLLOW_UP)
    await lab.panel.shows("central limit")
    await lab.panel.ended()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(draw(Path(folder)))
