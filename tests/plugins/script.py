"""A module that is a script, and ends the process that imports it."""

import sys

sys.exit(3)
