"""`vitzoo convert`."""

import argparse
from typing import Any

from vitzoo.cli.arguments import Parser
from vitzoo.cli.output import Result
from vitzoo.config.layers import nested
from vitzoo.errors import UserError

TAKES_CONFIG = True
EXAMPLES = """\
Published weights become a run of vitzoo's; weights of vitzoo's become those of Hugging Face transformers, or --format.
What can't be known from a file is given as --config.model.KEY=VALUE.

examples:
  vitzoo convert gpt2/model.safetensors runs/gpt2
  vitzoo convert google-t5/t5-small runs/t5            # by name: vitzoo models --pretrained
  vitzoo convert runs/photos@best photos-hf
  vitzoo convert runs/photos photos-timm --format timm-vit
  vitzoo convert runs/photos photos.stablehlo          # a function that needs only jax
  vitzoo convert simple_vit.pt runs/simple --config.model.num_heads=16"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument(
        "source", metavar="SRC", help="any checkpoint, or published weights: a file, a folder or a name"
    )
    parser.add_argument("output", metavar="DST", help="a new folder, or FILE.stablehlo")
    parser.add_argument(
        "--format", default="", metavar="NAME", help="to write: vitzoo, hf-vit, timm-vit, gpt2, bert ..."
    )
    parser.add_argument("--source-format", default="", metavar="NAME", help="to read, where it isn't to be recognised")
    parser.add_argument(
        "--weights", choices=("auto", "ema", "raw"), default="auto", help="auto: ema where there is one"
    )


def run(args: argparse.Namespace) -> Result:
    """Writes them."""
    from vitzoo.weights.convert import convert

    given = _given(args.overrides)
    if args.output.endswith(".stablehlo"):
        return _function(args, given)
    made = convert(
        args.source,
        args.output,
        form=args.format,
        source_format=args.source_format,
        weights=args.weights,
        given=given,
    )
    for note in made.notes:
        print(note)
    print(f"wrote    {made.output}: {made.format}, {made.weights} weights, {made.parameters:,} parameters")
    return Result(
        {"output": made.output, "format": made.format, "weights": made.weights, "parameters": made.parameters}
    )


def _given(overrides: list[str]) -> dict[str, Any]:
    """Settings of the model; UserError where another section is set."""
    sections = nested(overrides)
    for name, value in sections.items():
        if name != "model" or not isinstance(value, dict):
            raise UserError(
                f"--config.{name}", None, "`vitzoo convert` takes settings of the model: --config.model.KEY"
            )
    return sections.get("model", {})


def _function(args: argparse.Namespace, given: dict) -> Result:
    from vitzoo.weights.convert import write_stablehlo

    for flag in ("format", "source_format"):
        if value := getattr(args, flag):
            raise UserError(f"--{flag.replace('_', '-')}", value, "has no effect on a .stablehlo file")
    path, weights = write_stablehlo(args.source, args.output, args.weights, **given)
    print(f"wrote    {path}: {weights} weights, and {path.name}.json, which says what it takes")
    return Result({"output": str(path), "format": "stablehlo", "weights": weights})
