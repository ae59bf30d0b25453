"""Trains a small model of a family as one of several processes; started by `by_hand.sh`."""

import argparse
from pathlib import Path

import families

from vitzoo.parallel.cluster import Cluster, end, joined


def train(folder: Path, family: str, texts: Path) -> None:
    """To the end, saved half-way too."""
    import vitzoo

    config = families.config_of(family, texts)
    config.evaluate = families.evaluators_of(family)
    config.checkpoint = dict(every_steps=families.STEPS // 2)
    vitzoo.train(config, folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("family", choices=families.FAMILIES)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--coordinator")
    parser.add_argument("--num-processes", type=int)
    parser.add_argument("--process-id", type=int)
    given = parser.parse_args()
    with joined(Cluster(given.coordinator, given.num_processes, given.process_id), preemption=True):
        train(given.folder, given.family, given.texts)
    end(0)


if __name__ == "__main__":
    main()
