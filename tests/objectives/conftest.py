"""Makes the tests' models and sources, which are made in `tests/weights` and `tests/data/text`, importable here."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("weights", "data/text")]
