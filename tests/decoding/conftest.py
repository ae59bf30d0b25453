"""Makes the peers' recorded models, which are read in `tests/models`, importable here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "models"))
