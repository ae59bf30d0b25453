"""`vitzoo generate`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from vitzoo.cli.arguments import Parser, set_platform, typed
from vitzoo.cli.output import Result
from vitzoo.data.text.lines import read_lines
from vitzoo.errors import UserError
from vitzoo.outputs import checked_file, there, wrote
from vitzoo.overwriting import Reads

TAKES_CONFIG = False
SETTINGS = (
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "num_beams",
    "length_penalty",
    "length_normalisation",
    "early_stopping",
)
"""How tokens are chosen."""
EXAMPLES = """\
A single prompt's answer appears as it is written.

examples:
  vitzoo generate --checkpoint runs/gpt --prompt "def "
  vitzoo generate --checkpoint runs/gpt --prompt "def " --prompt "class " --temperature 0.7 --top-k 40 --seed 1
  vitzoo generate --checkpoint runs/gpt --prompts questions.txt --stop "\\n\\n" --output answers.jsonl
  vitzoo generate --checkpoint runs/chat --chat --prompt "What is two and two?"
  vitzoo generate --checkpoint runs/t5 --prompt "a source" --num-beams 4 --length-penalty 0.6"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""

    def number(flag: str, kind: type, default: object, help: str, **limits: float) -> None:
        parser.add_argument(flag, metavar="N", type=typed(flag, kind, **limits), default=default, help=help)

    parser.add_argument("--checkpoint", required=True, metavar="CKPT", help="RUN, RUN@best, RUN@STEP ...")
    parser.add_argument("--prompt", action="append", default=[], metavar="TEXT", help="can be given several times")
    parser.add_argument("--prompts", metavar="FILE", help="a file with a prompt in each line; -: standard input")
    parser.add_argument("--chat", action="store_true", help="a prompt is a user's turn, as in a training on messages")
    number("--max-new-tokens", int, 128, "most tokens added (128)", minimum=1)
    number(
        "--temperature",
        float,
        None,
        "below 1 sharper; 0: always the most probable token (1; of encoder-decoders 0)",
        minimum=0,
    )
    number("--top-k", int, None, "only the k most probable tokens; 0: all (0)", minimum=0)
    number("--top-p", float, None, "only the most probable tokens that reach this probability (1)", above=0, maximum=1)
    number("--repetition-penalty", float, None, "above 1: tokens that are there come less often (1)", above=0)
    number("--num-beams", int, None, "above 1: beam search of so many hypotheses, in place of draws (1)", minimum=1)
    number("--length-penalty", float, None, "of beam search: scores are divided by length to this power, -5 to 5 (1)")
    parser.add_argument(
        "--length-normalisation", choices=("power", "gnmt"), help="of beam search: length, or (5 + length) / 6 (power)"
    )
    stopping = typed("--early-stopping", bool | Literal["never"])
    parser.add_argument(
        "--early-stopping", metavar="true|false|never", type=stopping, help="when beam search is over (false)"
    )
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="an answer ends there; \\n is read")
    parser.add_argument(
        "--special-in-text", action="store_true", help="<extra_id_0>, </s> ... in a prompt mean the special tokens"
    )
    number("--seed", int, None, "of the draws (0)", minimum=0)
    parser.add_argument("--output", metavar="FILE.jsonl", help="write prompt, text, tokens and reason, a line each")
    parser.add_argument(
        "--weights", choices=("auto", "ema", "raw"), default="auto", help="auto: ema where there is one"
    )
    parser.add_argument(
        "--platform", choices=("cpu", "gpu", "cuda", "rocm", "tpu"), default="", help="else the best there is"
    )


def run(args: argparse.Namespace) -> Result:
    """Continues or answers prompts."""
    set_platform([f"platform={args.platform}"])
    if args.output is not None:
        checked_file("--output", args.output, (".jsonl",), Reads([args.prompts]))
    read = read_lines("--prompts", args.prompts) if args.prompts else []
    prompts = [*args.prompt, *(line for line in read if line)]
    if not prompts:
        raise UserError("--prompt", None, "there is none; give --prompt TEXT or --prompts FILE")
    given = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    if given.get("num_beams", 1) > 1 and args.seed is not None:
        raise UserError("--seed", args.seed, "has no effect: beam search draws nothing")
    from vitzoo.inference.generate import generate

    before = there(args.output)
    answers = generate(
        args.checkpoint,
        prompts,
        chat=args.chat,
        max_new_tokens=args.max_new_tokens,
        **given,
        stop=[stop.replace("\\n", "\n") for stop in args.stop],
        seed=args.seed or 0,
        weights=args.weights,
        platform=args.platform,
        special_in_text=args.special_in_text,
        output=args.output,
        out=None if args.json else sys.stdout,
        log=sys.stderr,
    )
    if args.output is not None:
        print(f"{wrote(args.output, before)}: {len(answers):,} answer{'s' * (len(answers) != 1)}")
    _say_cut(answers, args.max_new_tokens)
    return Result({"checkpoint": args.checkpoint, "answers": answers})


def _say_cut(answers: Sequence[Mapping[str, Any]], asked: int) -> None:
    """A line for each answer that the model's context ended."""
    sys.stdout.flush()
    for number, answer in enumerate(answers, 1):
        if answer["reason"] == "context":
            whose = f"the answer to prompt {number} of {len(answers)}" if len(answers) > 1 else "the answer"
            ends = f"ends after {answer['tokens']:,} of {asked:,} tokens"
            print(f"note: {whose} {ends}: the model takes no more (model.context_length)", file=sys.stderr)
