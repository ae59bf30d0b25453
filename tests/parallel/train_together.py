"""Trains a tiny ViT or T5 as one of several processes; started by `by_hand.sh`."""

import argparse
import sys
from pathlib import Path

from vitzoo.parallel.cluster import Cluster, end, joined

sys.path.append(str(Path(__file__).parents[2] / "scripts" / "drills"))


def train(folder: Path, kind: str) -> None:
    import common

    import vitzoo

    vitzoo.train(common.get_config(kind), folder, {"total_steps": 14})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("images", "text"))
    parser.add_argument("--coordinator")
    parser.add_argument("--num-processes", type=int)
    parser.add_argument("--process-id", type=int)
    given = parser.parse_args()
    with joined(Cluster(given.coordinator, given.num_processes, given.process_id), preemption=True):
        train(given.folder, given.kind)
    end(0)


if __name__ == "__main__":
    main()
