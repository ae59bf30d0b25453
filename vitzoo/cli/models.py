"""`vitzoo models`."""

import argparse
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table

if TYPE_CHECKING:
    from vitzoo.planning.models import VariantRow
    from vitzoo.weights.catalogue import Entry

TAKES_CONFIG = False
EXAMPLES = """\
examples:
  vitzoo models
  vitzoo models 'B/*' --json
  vitzoo models 'gpt2-*'
  vitzoo models --pretrained '*dinov2*'"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="PATTERN", help="a model or variant: vit, B/*, gpt2-*"
    )
    parser.add_argument(
        "--pretrained", action="store_true", help="list published weights; PATTERN is also a name or family: DINOv2"
    )


def run(args: argparse.Namespace) -> Result:
    """Lists the variants, or published weights."""
    if args.pretrained:
        from vitzoo.weights import catalogue

        entries = catalogue.table(args.pattern)
        listed = [entry.to_json() for entry in entries]
        if not args.json:
            print(_published(entries, sum(row["fetched"] is True for row in listed)))
        return Result({"models": listed})
    from vitzoo.planning import models

    rows = models.table(args.pattern)
    if not args.json:
        print("\n\n".join(_variants(list(alike)) for _, alike in itertools.groupby(rows, type)))
    return Result({"models": [row.to_json() for row in rows]})


def _variants(rows: "Sequence[VariantRow]") -> str:
    """A table of rows of one kind, and what its numbers are."""
    shown = table([rows[0].HEADER, *(row.cells for row in rows)], right=range(2, len(rows[0].HEADER)))
    return f"{shown}\n\n{rows[0].NOTE}"


def _published(entries: "Sequence[Entry]", fetched: int) -> str:
    header = ["name", "parameters", "input", "score", "licence", "source"]
    lines = [
        [
            entry.name,
            f"{entry.parameters:,}",
            f"{entry.image_size}²" if entry.image_size else f"{entry.tokens:,} tokens" if entry.tokens else "",
            "" if entry.score is None else f"{entry.score:g} {entry.metric}",
            entry.licence or "",
            "hub" if entry.hub else str(entry.published).partition(" ")[0],
        ]
        for entry in entries
    ]
    return f"""{table([header, *lines], right=(1, 2))}

parameters: as vitzoo reads them, with the classes that they have; a BERT's with pooler and without heads
score: as published, in % unless it is a perplexity; not measured by vitzoo. --json says where each is from
a name stands for a checkpoint: --config.init_from=NAME to train from it, --checkpoint NAME to use it
fetched: {fetched} of {len(entries)} are on this machine. vitzoo was made without any of them: the formats are tested
with small files of random weights"""
