"""Surfaces of data: JSON lines, tables and pictures."""

import csv
import io
import json
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

from fuzzing import made
from fuzzing.mutations import (
    NUMBERS,
    TEXTS,
    copied,
    damage_bytes,
    damage_file,
    damage_json,
    damage_text,
    files_in,
    json_text,
    odd_entry,
    several,
    write,
)

INSTRUCT = "gpt/instruct --config.init_from={made}/runs/gpt --config.inputs.tokens.length=64"
CLASSIFY = "bert/classify --config.inputs.tokens.tokenizer.kind=bytes"
TRANSLATE = "t5/translate --config.inputs.tokens.tokenizer.kind=bytes"
CONFIGS: Mapping[str, str] = {
    **dict.fromkeys(("answers", "chats"), INSTRUCT),
    **dict.fromkeys(("labelled", "sentences"), CLASSIFY),
    "pairs": TRANSLATE,
    "pictured": "quickstart --config.evaluate.test.split=validation",
    "plain": "gpt/char",
    "tagged": "bert/tag --config.inputs.tokens.tokenizer.kind=bytes",
}
"""The config that trains on each kind of JSON lines."""
FLAT = ("answers", "labelled", "pairs", "pictured", "plain", "sentences")
"""Those that a CSV file can hold."""
SKIP = ((), (), ("--config.data.bad_files=skip",))
ENDINGS = (".jpg", ".png", ".tif", ".webp", ".bmp", ".eps", ".avif", ".dds", ".txt", "")
PARTS = ("train", "val", "test", "validation", "Train", "extra")


def json_lines(draw: random.Random, base: Path) -> list[str]:
    """JSON lines of data, or the JSON files beside published weights."""
    if draw.random() < 0.25:
        return _beside_weights(draw)
    kind = draw.choice(sorted(made.ROWS))
    rows = [json.dumps(row) for row in made.ROWS[kind]]
    _link_pictures(base)

    def change() -> None:
        other = kind if draw.random() < 0.8 else draw.choice(sorted(made.ROWS))
        rows[draw.randrange(len(rows))] = json_text(damage_json(draw.choice(made.ROWS[other]), draw), draw)

    several(draw, change)
    text = draw.choice((*["\n"] * 9, "\r\n", "\n\n", "\r", "\u2028")).join(rows)
    file = Path("data.jsonl")
    write(file, damage_bytes(text.encode("utf-8", "surrogatepass"), draw) if draw.random() < 0.1 else text)
    if draw.random() < 0.05:
        odd_entry(file, draw)
    name, skip = f"jsonl:{file}", draw.choice(SKIP)
    dry = ["train", "--config", *CONFIGS[kind].format(made=base).split(), "--workdir", "w", "--dry-run"]
    check = ["data", "check", name, *skip, *draw.choice(((), ("--json",)))]
    return draw.choice(([*dry, f"--config.data.name={name}", *skip], check, check, ["data", "show", name]))


def _link_pictures(base: Path) -> None:
    for kind in made.KINDS:
        os.symlink(base / "pictures" / kind, kind)


def _beside_weights(draw: random.Random) -> list[str]:
    chosen = draw.choice(sorted(made.GOLDENS.rglob("*.json")))
    folder = copied(chosen.parent, "weights")
    file = folder / chosen.name
    write(file, json_text(damage_json(json.loads(file.read_text()), draw), draw))
    start = "train --config vit/finetune --config.init_from=weights --config.data.name=digits --workdir w --dry-run"
    return draw.choice((["convert", "weights", "out"], ["convert", "weights", "out"], start.split()))


def csv_tables(draw: random.Random, base: Path) -> list[str]:
    """A table of pictures and their labels, or of texts."""
    pictures = base / "pictures"
    _link_pictures(base)
    kind = draw.choice(("", "", "", *FLAT))
    if kind:
        records = made.ROWS[kind]
        rows = [[*records[0]], *([str(value) for value in record.values()] for record in records)]
    else:
        rows = [line.split(",") for line in (pictures / "labels.csv").read_text().splitlines()]
    several(draw, lambda: _change_row(rows, draw))
    prefix = draw.choice(("", "", f"{pictures}/")) if kind in ("", "pictured") else ""
    rows[1:] = [[f"{prefix}{row[0]}", *row[1:]] if row else [] for row in rows[1:]]
    comma, end = draw.choice((*[","] * 6, ";", "\t", "|", " ")), draw.choice((*["\n"] * 6, "\r\n", "\r", "\n\n"))
    if draw.random() < 0.5:
        text = end.join(comma.join(row) for row in rows)
    else:  # quoted where it must be, so that odd cells are read
        csv.writer(written := io.StringIO(), delimiter=comma, lineterminator=end, escapechar="\\").writerows(rows)
        text = written.getvalue()
    text = damage_text(text, draw) if draw.random() < 0.2 else text
    content = text.encode(draw.choice((*["utf-8"] * 12, "utf-16", "latin-1", "utf-8-sig")), "replace")
    file = Path("labels.csv")
    write(file, damage_bytes(content, draw) if draw.random() < 0.1 else content)
    if draw.random() < 0.05:
        odd_entry(file, draw)
    fields = ("label_field=label,split", "image_field=file", "text_field=text", "regression=true")
    columns = draw.choice(((), (), (), ("label_field=label",), *((field,) for field in fields)))
    more = [*(f"--config.data.{column}" for column in columns), *draw.choice(SKIP)]
    config = CONFIGS[kind or "pictured"].format(made=base)
    dry = f"train --config {config} --config.data.name=csv:{file} --dry-run"
    check = ["data", "check", f"csv:{file}"]
    return [*draw.choice(([*dry.split(), "--workdir", "w"], check, check)), *more]


def _change_row(rows: list[list[str]], draw: random.Random) -> None:
    row = draw.choice(rows)
    place = draw.randrange(len(row)) if row else 0
    kind = draw.choice(("cell", "cell", "cell", "quote", "quote", "gone", "more", "row", "column", "rows"))
    if kind == "more":
        row.insert(place, draw.choice((*TEXTS, *NUMBERS)))
    elif kind == "row":
        rows.insert(draw.randrange(len(rows)), list(draw.choice((rows[0], row, [], [""], ["x"]))))
    elif kind == "column":
        extra = draw.choice((*TEXTS, "label", "a|b"))
        for one in rows:
            one.append(extra)
    elif kind == "rows":
        rows.extend([list(row) for _ in range(draw.choice((2, 2000)))])
    elif kind == "gone" and row:
        del row[place]
    elif row and kind == "quote":
        cell = row[place]
        odd = (f'"{cell}', f'{cell}"', f'"{cell}"', f'"{cell}""', f'""{cell}', f'"{cell}\n"', f'"a"b"{cell}')
        row[place] = draw.choice((*odd, f'"{cell}""x"', f'"{cell},x"', f" {cell} ", "x" * 140_000, f"{cell}\\"))
    elif row:
        row[place] = draw.choice((*TEXTS, *NUMBERS, row[place].upper(), f"{row[place]}|x", f"|{row[place]}"))


def images(draw: random.Random, base: Path) -> list[str]:
    """A folder of pictures with damaged files, odd names and links."""
    folder = copied(base / "pictures")
    for file in files_in(folder):
        if draw.random() < 0.5:
            file.unlink()
    several(draw, lambda: _change_picture(folder, draw))
    name, skip = "folder:pictures", draw.choice(SKIP)
    dry = f"train --config quickstart --config.data.name={name} --config.evaluate.test.split=validation --dry-run"
    check = ["data", "check", name, *skip]
    predict = ["predict", "--checkpoint", f"{base}/runs/vit", "pictures"]
    show = ["data", "show", name, "--output", "o.png"]
    return draw.choice((check, check, check, check, [*dry.split(), "--workdir", "w", *skip], predict, show))


def _change_picture(folder: Path, draw: random.Random) -> None:
    if not folder.is_dir() or not (files := files_in(folder)):
        return
    file = draw.choice(files)
    kind = draw.choice(("file", "file", "file", "file", "file", "entry", "ending", "folder", "split", "link"))
    if kind == "file":
        damage_file(file, draw, files)
    elif kind == "entry":
        odd_entry(file, draw)
    elif kind == "ending":
        file.rename(file.with_suffix(draw.choice(ENDINGS)))
    elif kind == "folder":
        odd_entry(file if file.parent == folder else file.parent, draw)
    elif kind == "split":
        for part in draw.sample(PARTS, 2):
            (folder / part / "x").mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / part / draw.choice(("x", ".")))
    else:
        target = draw.choice((".", "..", "../..", "../cats", "/dev", os.devnull))
        (file.parent / f"loop{draw.randrange(10**9)}").symlink_to(target)
