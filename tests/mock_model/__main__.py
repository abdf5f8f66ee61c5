"""`python -m tests.mock_model --port 8123`: serve until interrupted, for trying things by hand and in a browser."""

from __future__ import annotations

import argparse
import sys
import threading

from tests.mock_model.server import MockModel


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mock_model", description="A model server for tests."
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    arguments = parser.parse_args()
    with MockModel(port=arguments.port) as model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
