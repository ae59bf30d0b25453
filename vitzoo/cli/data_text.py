"""`vitzoo data` of text."""

import argparse
from typing import Any

from vitzoo.cli.data_check import say_text_check
from vitzoo.cli.output import Result
from vitzoo.errors import UserError

SECTIONS = {"prepare": ("data", "text", "tokenizer"), "check": ("data", "text"), "show": ("data", "text")}
FEW = 5  # texts shown
CUT = 400  # characters shown of a text


def run_text(args: argparse.Namespace, given: dict[str, Any]) -> Result:
    """Prepares, checks or shows a dataset of text.

    Args:
        args: the command's.
        given: its flags that are set.
    """
    from vitzoo.config.resolution import nested
    from vitzoo.data.effect import first_without_effect, kind_of

    sections = nested(args.overrides)
    for name in sorted(set(sections) - set(SECTIONS[args.action])):
        raise UserError(f"--config.{name}", None, f"has no effect in `vitzoo data {args.action}` of text")
    for name in sorted(set(sections.get("data", {})) & set(given)):
        raise UserError(f"--config.data.{name}", sections["data"][name], f"is given besides --{name}; keep one of them")
    for section in ("data", "text"):
        field, why = first_without_effect(section, sections.get(section, {}), [kind_of(args.name, text=True)])
        if why:
            raise UserError(f"--config.{section}.{field}", sections[section][field], why)
    action = {"prepare": _prepare, "check": _check, "show": _show}[args.action]
    return action(args.name, given, sections)


def _prepare(name: str, given: dict[str, Any], sections: dict[str, Any]) -> Result:
    from vitzoo.data.text.prepare import prepare_tokenizer

    if "shards" in given:
        raise UserError("--shards", given["shards"], "is for images; text is read as it is")
    output = given.pop("output", None)
    if output is None:
        raise UserError("--output", None, "names the tokenizer's folder")
    settings = {**sections.get("data", {}), **given}
    made = prepare_tokenizer(name, output, sections.get("tokenizer", {}), text=sections.get("text"), **settings)
    print(f"wrote    {made.folder}: {made.vocabulary_size:,} ids")
    print(f"text     {made.tokens:,} tokens, {made.bytes_per_token:.2f} bytes a token")
    print(f"next     {made.command}")
    values = {"dataset": name, "folder": str(made.folder), "vocabulary_size": made.vocabulary_size}
    return Result({**values, "tokens": made.tokens, "bytes_per_token": made.bytes_per_token})


def _check(name: str, given: dict[str, Any], sections: dict[str, Any]) -> Result:
    from vitzoo.data.text.check import check_text

    settings = {**sections.get("data", {}), **given}
    found, stops = check_text(name, text=sections.get("text"), **settings), settings.get("bad_files", "stop") == "stop"
    say_text_check(found, stops)
    return Result(found, 1 if found["unreadable"] and stops else 0)


def _show(name: str, given: dict[str, Any], sections: dict[str, Any]) -> Result:
    from vitzoo.data.text.check import some

    if "output" in given:
        raise UserError("--output", given["output"], "is for pictures; texts are printed")
    count = given.pop("count", FEW)
    settings = {**sections.get("data", {}), **given}
    shown = list(some(name, count, text=sections.get("text"), **settings))
    for where, example in shown:
        print(where)
        for field, value in example.items():
            said = str(value)
            print(f"  {field}: {said[:CUT]}{' ...' if len(said) > CUT else ''}")
    return Result({"dataset": name, "examples": [{"where": where, **example} for where, example in shown]})
