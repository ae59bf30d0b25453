"""Makes `vitzoo/planning/variants.json` anew, the numbers that `vitzoo models` shows; takes half a minute."""

import dataclasses
import json

from vitzoo.planning import cost, models


def main() -> None:
    """Counts every published variant and writes one line for each."""
    rows = [json.dumps(dataclasses.asdict(row)) for row in cost.published()]
    models.KEPT.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
