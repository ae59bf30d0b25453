"""Trains a small model of a family as one of several processes; started by `by_hand.sh`."""

import argparse
from pathlib import Path

import families

from vitzoo.cli.arguments import add_process_flags, runs_together
from vitzoo.cli.output import Result
from vitzoo.parallel.cluster import end


def train(folder: Path, family: str, texts: Path) -> None:
    """To the end, saved half-way too."""
    import vitzoo

    config = families.config_of(family, texts)
    config.evaluate = families.evaluators_of(family)
    config.checkpoint = dict(every_steps=families.STEPS // 2)
    vitzoo.train(config, folder)


@runs_together(preemption=True)
def run(given: argparse.Namespace) -> Result:
    train(given.folder, given.family, given.texts)
    return Result({})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("family", choices=families.FAMILIES)
    parser.add_argument("texts", type=Path)
    add_process_flags(parser)
    run(parser.parse_args())
    end(0)
