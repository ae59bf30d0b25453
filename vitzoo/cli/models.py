"""`vitzoo models`."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result, table

if TYPE_CHECKING:
    from vitzoo.planning.models import ImageRow, TextRow
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
            print(_published(entries, sum(row["fetched"] for row in listed)))
        return Result({"models": listed})
    from vitzoo.planning import models

    rows = models.table(args.pattern)
    if not args.json:
        pictures = [row for row in rows if isinstance(row, models.ImageRow)]
        texts = [row for row in rows if isinstance(row, models.TextRow)]
        print("\n\n".join(shown for shown in (_pictures(pictures), _texts(texts)) if shown))
    return Result({"models": [row.to_json() for row in rows]})


def _pictures(rows: "Sequence[ImageRow]") -> str:
    if not rows:
        return ""
    header = ["model", "variant", "parameters", "of the body", "GFLOPs 224²", "GFLOPs 384²"]
    lines = [
        [
            row.name,
            row.variant,
            f"{row.parameters:,}",
            f"{row.body_parameters:,}",
            f"{row.gflops:,.1f}",
            f"{row.gflops_384:,.1f}",
        ]
        for row in rows
    ]
    return f"""{table([header, *lines], right=(2, 3, 4, 5))}

parameters: with class token and 1000 classes; of the body: without them, at 224²
GFLOPs: matrix products of the body for one image, multiply and add counted as two"""


def _texts(rows: "Sequence[TextRow]") -> str:
    if not rows:
        return ""
    header = ["model", "variant", "parameters", "tokens", "GFLOPs"]
    lines = [
        [
            row.name,
            row.variant,
            f"{row.parameters:,}",
            f"{row.source_tokens} + {row.tokens}" if row.source_tokens else f"{row.tokens:,}",
            f"{row.gflops:,.1f}",
        ]
        for row in rows
    ]
    return f"""{table([header, *lines], right=(2, 3, 4))}

parameters: a BERT's with pooler and without heads; where a variant leaves the vocabulary open, the paper's
GFLOPs: matrix products of one forward pass over so many tokens (source + target), multiply and add counted as two"""


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
