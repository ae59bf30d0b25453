"""`vitzoo data`."""

import argparse
from typing import Any

from vitzoo.cli.arguments import Parser, typed
from vitzoo.cli.output import Result
from vitzoo.errors import UserError
from vitzoo.outputs import there, wrote
from vitzoo.paths import named_path
from vitzoo.spelling import nearest

TAKES_CONFIG = True
ACTIONS = {
    "prepare": ("dir", "bad_files", "shards", "split", "output"),
    "check": ("dir", "bad_files", "split"),
    "show": ("dir", "bad_files", "split", "count", "output"),
}
"""The flags of each action."""
CUT = 400  # characters shown of a text
EXAMPLES = """\
prepare  write images once as ArrayRecord, which reads fast: TFDS's, or folder:PATH, csv:FILE, jsonl:FILE of any size;
         of text, train a tokenizer (--config.inputs.tokens.tokenizer.kind=bpe, unigram or wordpiece) and write it to
         --output
check    read every example; count classes and sizes; name what can't be read, and end with 1 if training would stop
show     some examples with their labels: a picture, or of text as it is

examples:
  vitzoo data prepare imagenet2012 --dir /data
  vitzoo data prepare folder:/photos --shards 64 --dir /data
  vitzoo data check csv:/photos/labels.csv --config.data.label_field=species
  vitzoo data show fashion_mnist --split test --output examples.png
  vitzoo data check jsonl:reviews.jsonl
  vitzoo data prepare text:book.txt --output my-tokenizer --config.inputs.tokens.tokenizer.kind=bpe \\
    --config.inputs.tokens.tokenizer.vocabulary_size=4000"""


def arguments(parser: Parser) -> None:
    """Adds the command's flags."""
    parser.add_argument("action", metavar="prepare|check|show")
    parser.add_argument("name", metavar="NAME", help="as data.name: a TFDS name, folder:PATH, csv:FILE, text:FILE ...")
    parser.add_argument("--dir", metavar="DIR", help="of prepared data; else $TFDS_DATA_DIR or ~/tensorflow_datasets")
    parser.add_argument("--bad-files", metavar="stop|skip", help="an unreadable image stops, or is left out (stop)")
    parser.add_argument("--shards", metavar="N", type=typed("--shards", int, minimum=1), help="files for each split")
    parser.add_argument("--split", metavar="SPLIT", help="which examples (check: all; else train)")
    parser.add_argument(
        "--count", metavar="N", type=typed("--count", int, minimum=1), help="how many to show (64; of text 5)"
    )
    parser.add_argument(
        "--output", metavar="FILE.png|DIR", help="the picture's file (examples.png); the tokenizer's folder"
    )
    parser.add_argument(
        "--config.data.KEY",
        metavar="VALUE",
        help="another setting of the data section that says what is read: validation_fraction, label_field ...",
        dest="_",
    )
    parser.add_argument(
        "--config.inputs.tokens.tokenizer.KEY",
        metavar="VALUE",
        help="prepare: settings of a tokenizer, which is trained on text",
        dest="_",
    )
    parser.by_action = ACTIONS


def run(args: argparse.Namespace) -> Result:
    """Prepares, checks or shows a dataset."""
    if args.action not in ACTIONS:
        raise UserError("action", args.action, nearest(args.action, ACTIONS))
    given = {name for names in ACTIONS.values() for name in names if getattr(args, name) is not None}
    for name in sorted(given - set(ACTIONS[args.action])):
        raise UserError(_flag(name), getattr(args, name), f"is no flag of `vitzoo data {args.action}`")
    if args.dir is not None:
        named_path("--dir", args.dir)
        _refuse_without_effect(args.name, {"dir": args.dir} if args.action != "prepare" else {}, "--")
    settings, tokenizer = _settings(args)
    for name in sorted(given & set(settings)):
        raise UserError(f"--config.data.{name}", settings[name], f"can't be given with {_flag(name)}; give one of them")
    settings |= {name: getattr(args, name) for name in given}
    if args.action == "prepare":
        return _prepare(args.name, settings, tokenizer)
    return {"check": _check, "show": _show}[args.action](args.name, settings)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _settings(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the data section given as `--config.data.KEY=VALUE`, and those of the tokenizer."""
    from vitzoo.config.layers import nested
    from vitzoo.data.settings import OF_STREAM, Data
    from vitzoo.schema import annotations, convert_fields

    overrides, command = nested(args.overrides), f"vitzoo data {args.action}"
    tokenizer = overrides.get("inputs")
    for key in ("tokens", "tokenizer"):
        tokenizer = tokenizer.get(key) if isinstance(tokenizer, dict) else None
    if isinstance(tokenizer, dict) and overrides["inputs"] == {"tokens": {"tokenizer": tokenizer}}:
        del overrides["inputs"]
        if args.action != "prepare":
            raise UserError("--config.inputs.tokens.tokenizer", None, f"has no effect in `{command}`")
    for key in sorted(set(overrides) - {"data"}):
        raise UserError(f"--config.{key}", None, "`vitzoo data` takes settings of the data section only")
    settings = convert_fields(Data, overrides.get("data", {}), "data")
    if "name" in settings:
        raise UserError("--config.data.name", settings["name"], f"the dataset is named without a flag: {command} NAME")
    flags = {*annotations(Data)} & {name for names in ACTIONS.values() for name in names}
    for key in sorted(set(settings) & ({*OF_STREAM} | flags - {*ACTIONS[args.action]})):
        raise UserError(f"--config.data.{key}", settings[key], f"has no effect in `{command}`")
    _refuse_without_effect(args.name, settings, "--config.data.")
    return settings, tokenizer or {}


def _refuse_without_effect(name: str, settings: dict[str, Any], prefix: str) -> None:
    from vitzoo.data.effect import first_without_effect, kind_of

    field, why = first_without_effect(settings, {kind_of(name, text=text) for text in (False, True)})
    if why:
        raise UserError(f"{prefix}{field}", settings[field], why)


def _prepare(name: str, settings: dict[str, Any], tokenizer: dict[str, Any]) -> Result:
    from vitzoo.data.open import is_text
    from vitzoo.data.prepare import prepare, torn_note, training_command
    from vitzoo.data.settings import Data
    from vitzoo.schema import build

    of_data = {key: value for key, value in settings.items() if key not in ("shards", "output")}
    if is_text(build(Data, {"name": name, **of_data}, "data")):
        return _prepare_tokenizer(name, settings, tokenizer)
    if tokenizer:
        raise UserError("--config.inputs.tokens.tokenizer", None, "is of text, and these data are images")
    for key in ("split", "output"):
        if key in settings:
            raise UserError(_flag(key), settings[key], "is for a tokenizer; images are written to --dir, all splits")
    prepared = prepare(name, **settings)
    for note in prepared.notes:
        print(note)
    print(f"prepared {prepared.folder}")
    if command := training_command(prepared, settings.get("dir", "")):
        for note in torn_note(prepared, settings.get("dir", "")):
            print(note)
        print(f"next     {command}")
    return Result({"dataset": name, "name": prepared.name, "folder": str(prepared.folder)})


def _prepare_tokenizer(name: str, settings: dict[str, Any], tokenizer: dict[str, Any]) -> Result:
    from vitzoo.data.text.prepare import prepare_tokenizer

    if "shards" in settings:
        raise UserError("--shards", settings["shards"], "is for images; text is read as it is")
    if "dir" in settings:
        _refuse_without_effect(name, {"dir": settings["dir"]}, "--")
    output = settings.pop("output", None)
    if output is None:
        raise UserError("--output", None, "names the tokenizer's folder")
    made = prepare_tokenizer(name, output, tokenizer, **settings)
    print(f"wrote    {made.folder}: {made.vocabulary_size:,} ids")
    print(f"text     {made.tokens:,} tokens, {made.bytes_per_token:.2f} bytes a token")
    print(f"next     {made.command}")
    values = {"dataset": name, "folder": str(made.folder), "vocabulary_size": made.vocabulary_size}
    return Result({**values, "tokens": made.tokens, "bytes_per_token": made.bytes_per_token})


def _check(name: str, settings: dict[str, Any]) -> Result:
    from vitzoo.cli.output import say_check
    from vitzoo.data.check import check

    found, stops = check(name, **settings), settings.get("bad_files", "stop") == "stop"
    say_check(found, stops)
    return Result(found, 1 if found["unreadable"] and stops else 0)


def _show(name: str, settings: dict[str, Any]) -> Result:
    from vitzoo.data.show import PICTURE, show

    before = there(settings.get("output", PICTURE))
    shown = show(name, **settings)
    if not isinstance(shown, list):
        print(wrote(shown, {str(shown)} if before else ()))
        return Result({"dataset": name, "file": str(shown)})
    for where, example in shown:
        print(where)
        for field, value in example.items():
            said = str(value)
            print(f"  {field}: {said[:CUT]}{' ...' if len(said) > CUT else ''}")
    return Result({"dataset": name, "examples": [{"where": where, **example} for where, example in shown]})
