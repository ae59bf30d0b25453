"""The flags of commands that run as several processes, and running them so."""

import argparse
import functools
import os
from collections.abc import Callable

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result
from vitzoo.parallel.cluster import cluster_of, joined

Run = Callable[[argparse.Namespace], Result]


def add_flags(parser: Parser) -> None:
    """`--coordinator`, `--num-processes`, `--process-id`, `--distributed`."""
    parser.add_argument(
        "--coordinator", metavar="HOST:PORT", help="of several processes: where process 0 is to be reached"
    )
    parser.add_argument(
        "--num-processes", metavar="N", type=typed("--num-processes", int, minimum=1), help="how many they are"
    )
    parser.add_argument(
        "--process-id", metavar="I", type=typed("--process-id", int, minimum=0), help="which this is, from 0"
    )
    parser.add_argument(
        "--distributed",
        action=argparse.BooleanOptionalAction,
        help="one of several processes, which Slurm, Open MPI, a TPU slice or Kubernetes names (found by itself where "
        "srun, mpirun or a TPU slice on Kubernetes started several)",
    )


def together(*, preemption: bool) -> Callable[[Run], Run]:
    """A command that runs with the other processes, where flags or environment name some.

    Args:
        preemption: SIGTERM asks the command for a checkpoint; else it ends the process.
    """

    def of(run: Run) -> Run:
        @functools.wraps(run)
        def started(args: argparse.Namespace) -> Result:
            cluster = cluster_of(args.coordinator, args.num_processes, args.process_id, args.distributed, os.environ)
            if cluster is None:
                return run(args)
            with joined(cluster, preemption=preemption):
                return run(args)

        return started

    return of
