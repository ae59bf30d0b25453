"""Surfaces of what is set: flags with their values, and config files."""

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path

import fuzz_weights

from fuzzing import made
from fuzzing.mutations import (
    NUMBERS,
    TEXTS,
    damage_bytes,
    damage_json,
    damage_text,
    json_text,
    odd_entry,
    odd_name,
    several,
    write,
)

COMMANDS: Mapping[str, str] = {
    "train": "train --config quickstart --workdir w --dry-run",
    "train_text": "train --config gpt/quickstart --workdir w --dry-run --config.data.name=text:{made}/texts/book.txt",
    "sweep": "sweep --config quickstart --workdir w --over seed=0,1 --dry-run",
    "plan": "plan --config {made}/config.py --topology cpu:2 --formula --examples 100",
    "configs": "configs quickstart --json",
    "models": "models vit*",
    "check": "data check csv:{made}/pictures/labels.csv --dir d",
    "show": "data show jsonl:{made}/texts/labelled.jsonl --count 3",
    "report": "report {made}/runs/vit --output o.html",
    "convert": "convert {made}/runs/gpt out --weights raw --format gpt2",
    "average": "average --workdir {made}/runs/vit --last 2 --output o",
    "predict": "predict --checkpoint {made}/runs/vit {made}/pictures/cats/a.png --top 2 --batch-size 2 --output o.csv",
    "generate": "generate --checkpoint {made}/runs/gpt --prompt Line --max-new-tokens 2 --top-k 3 --seed 1",
    "eval": "eval --checkpoint {made}/runs/vit --config.data.split=test[:8] --weights ema --output o",
    "soup": "soup {made}/runs/vit {made}/runs/vit@2 --output o",
}
LIGHT = ["train", "train", "train_text", "sweep", "plan", "configs", "configs", "models", "check", "show", "report"]
TAKES_SETTINGS = ("train", "train_text", "sweep", "plan", "configs", "eval")
OTHER_FLAGS = [
    "json",
    "debug",
    "dry-run",
    "top",
    "weights",
    "output",
    "platform",
    "help",
    "over",
    "checkpoint",
    "batch-size",
]
CODE = (
    *("raise ValueError('a\\nb')", "return None", "return 5", "return {}", "import nothing_there", "1 / 0"),
    *("config.model = config", "config.evaluate = {1: dict(name='classification')}", "config.data = [1]"),
    *("config.data.name = 5", "config.model.name = None", "exit(3)", "config.model.again = config.model"),
    *("config.unlock()", "del config.seed", "config['a.b'] = 1", "config[5] = 1", "return dict(config)"),
    *("config.data = dict(name='digits', split=5)", "config.mesh = dict(data=1)", "raise SystemExit('no')"),
    *("config.model.variant = 'nothing'", "config.optimizer = 'adamw'", "config.objective = dict(name='x:Y')"),
    *("raise KeyboardInterrupt", "config.data.name = 'folder:'", "config = {'seed': 1}", "print('x')", "def f(): f()"),
    *("config.total_steps = 5", "config.evaluate.test = None", "config.data.split = 'test[5%:2%]'", "yield config"),
)
"""Lines that someone may write in a config file."""
VALUES = (
    *map(repr, fuzz_weights.VALUES),
    "10**400",
    "{1: 2}",
    "object()",
    "config",
    "len",
    "(1,)",
    "b'a'",
    "1j",
    "{1}",
)


def flags(draw: random.Random, base: Path) -> list[str]:
    """A right command with other flags, values and settings."""
    name = draw.choice(LIGHT) if draw.random() < 0.85 else draw.choice(sorted(COMMANDS))
    arguments = COMMANDS[name].format(made=base).split()
    settings = _settings(base / "runs" / ("gpt" if name == "train_text" else "vit"))
    several(draw, lambda: _change_flag(arguments, settings if name in TAKES_SETTINGS else {}, draw))
    if "--dry-run" in COMMANDS[name] and "--dry-run" not in arguments:
        arguments.insert(draw.randrange(len(arguments)) + 1 if arguments else 0, "--dry-run")
    return arguments


def _change_flag(arguments: list[str], settings: Mapping[str, object], draw: random.Random) -> None:
    place = draw.randrange(1, len(arguments)) if len(arguments) > 1 else 0
    kinds = ("value", "value", "gone", "double", "text", "flagfile", "other", *["setting"] * (6 * bool(settings)))
    kind = draw.choice(kinds)
    if kind == "setting":
        arguments += _setting(settings, draw)
    elif kind == "gone" and len(arguments) > 1:
        del arguments[place]
    elif kind == "double":
        arguments.insert(place, draw.choice(arguments))
    elif kind == "text":
        arguments.insert(place, draw.choice(TEXTS))
    elif kind == "flagfile":
        file = draw.choice(("flags.txt", odd_name(draw)[:100].replace("/", "_")))
        if file not in (".", ".."):
            write(Path(file), damage_text("\n".join([*arguments[place:], f"--flagfile={file}"]), draw))
            arguments[place:] = [f"--flagfile={file}"]
    elif kind == "other":
        flag = f"--{draw.choice(OTHER_FLAGS)}"
        arguments.append(draw.choice((flag, f"{flag}={draw.choice((*TEXTS, *NUMBERS))}")))
    else:
        arguments[place] = _value(arguments[place], draw)


def _setting(settings: Mapping[str, object], draw: random.Random) -> list[str]:
    key = draw.choice(sorted(settings))
    value = _value(settings[key], draw)
    key = damage_text(key, draw) if draw.random() < 0.1 else key
    return draw.choice((*[[f"--config.{key}={value}"]] * 8, [f"--config.{key}", value], [f"--noconfig.{key}"]))


def _value(right: object, draw: random.Random) -> str:
    """The text of a flag's value: another number or text, or one somewhat like the right one."""
    text = json.dumps(right) if isinstance(right, dict | list) else str(right)
    return draw.choice((draw.choice(NUMBERS), draw.choice(TEXTS), damage_text(text, draw), text))


def _settings(run: Path) -> dict[str, object]:
    """Every setting of a run's config, by its dotted name."""
    found = dict[str, object]()

    def walk(place: str, value: object) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                walk(f"{place}.{name}" if place else name, inner)
        else:
            found[place] = value

    walk("", json.loads((run / "config.json").read_text()))
    return found


def config(draw: random.Random, base: Path) -> list[str]:
    """A config file, of Python or JSON."""
    if draw.random() < 0.25:
        name = "config.json"
        content = json.loads((base / "runs" / draw.choice(sorted(made.RUNS)) / name).read_text())
        write(Path(name), json_text(damage_json(content, draw), draw))
    else:
        name = f"config.py{draw.choice(('', '', '', '', ':b', ':', ':a:b', ':é'))}"
        lines = made.CONFIG.splitlines()
        several(draw, lambda: _change_line(lines, draw))
        text = "\n".join(lines)
        write(Path("config.py"), damage_bytes(text.encode(), draw) if draw.random() < 0.05 else text)
    if draw.random() < 0.03:
        odd_entry(Path(name.partition(":")[0]), draw)
    dry = ["train", "--config", name, "--workdir", "w", "--dry-run"]
    plan = ["plan", "--config", name, "--topology", "cpu:2", "--formula"]
    return draw.choice((dry, dry, dry, ["configs", name], plan))


def _change_line(lines: list[str], draw: random.Random) -> None:
    """One line of the config file: another value, another argument, another name, or a line more."""
    place, value = draw.randrange(7, len(lines) - 1), draw.choice(VALUES)
    value = f"float({value!r})" if value in ("nan", "inf", "-inf") else value
    kind = draw.choice(("value", "value", "argument", "argument", "argument", "argument", "text", "name", "code"))
    if kind == "argument" and (named := re.findall(r"(\w+)=[^,()]+", lines[place])):
        name = draw.choice(named)
        lines[place] = re.sub(rf"\b{name}=[^,()]+", lambda _: f"{name}={value}", lines[place], count=1)
    elif kind == "name":
        other = draw.choice(("seed", "model", "lr", "evaluate", "data", "x", "optimizer.x"))
        lines[place] = re.sub(r"config\.\w+", f"config.{other}", lines[place], count=1)
    elif kind == "text":
        lines[place] = damage_text(lines[place], draw)
    elif kind == "code":
        lines.insert(place, f"    {draw.choice(CODE)}")
    else:
        lines[place] = re.sub(r"(config(\.\w+)+) = .*", lambda found: f"{found[1]} = {value}", lines[place])
