"""Makes the tests' run folders, which are made in `tests/weights`, importable here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "weights"))
