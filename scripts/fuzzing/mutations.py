"""What is done to valid inputs: to bytes, texts, JSON values, names and files."""

import copy
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NUMBERS = (
    *("0", "-1", "1", "2", "-0.0", "0.5", "1e-400", "1e308", "1e309", "-1e308", "nan", "inf", "-inf", "1_000", "0x10"),
    *("9" * 30, "9" * 5000, str(2**31), str(2**63), "٣", "1.5.2", "1,2", "½", "1e", "--1", "1" + "0" * 400),
)
TEXTS = (
    *("", " ", "\t", "none", "null", "true", "false", "auto", "a\nb", "a\r\nb", "\x00", "\x1b[31m", "é", "e\u0301"),
    *(
        "\u202eabc",
        "\u200b",
        "\ufeff",
        "🏳️\u200d🌈",
        "日本語",
        "ß",
        "İ",
        "\ud83d",
        "\udc80",
        "x" * 5000,
        "'",
        '"',
        '"a',
        "`ls`",
    ),
    *("$HOME", "~", "~x", "%s", "{}", "{0}", "{text}", "*", "?", "[", "[a]", "\\", "/", ".", "..", "../..", "a/b", "-"),
    *(
        "--",
        "--json",
        ":",
        "a:b:c",
        ",",
        ",,",
        ";",
        "a=b",
        "=",
        "(",
        "(?!",
        ".*",
        "/abs/*",
        "/dev/null",
        "con",
        "data:2",
    ),
    *("file://x", "gs://bucket/x", "hf://a/b", "folder:", "csv:x", "jsonl:", "text:.", "os:system", "math:sqrt", "a|b"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31, 2**64, 10**400, -(10**400), 0.0, 0.5, -1e-9, 1e308, 1e-320),
    *(float("nan"), float("inf"), -float("inf"), "", "5", "none", "a\nb", "\ud83d", "\x00", "x" * 3000, "é", "../x"),
    *(
        [],
        [[]],
        [1],
        ["a"],
        [None],
        {},
        {"a": 1},
        {"": None},
        {"name": 5},
        {"name": "vit"},
        [{}],
        [[1, 2], [3]],
        "[" * 500,
    ),
)
SUFFIXES = ("", ".png", ".jpg", ".csv", ".json", ".jsonl", ".txt", ".safetensors", ".npz", ".PNG", ".gz", ".npy", ".py")


def damage_bytes(content: bytes, draw: random.Random, other: bytes = b"") -> bytes:
    """Some bytes flipped, inserted, cut out, doubled, blanked or taken from elsewhere."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        size = len(data)
        head = draw.random() < 0.4
        start = draw.randrange(min(size, 200) if head else size) if size else 0
        end = min(size, start + draw.choice((1, 1, 2, 4, 16, 200, max(size // 3, 1))))
        kind = draw.choice(("flip", "byte", "insert", "cut", "double", "blank", "end", "splice", "large"))
        if kind == "flip" and size:
            data[start] ^= 1 << draw.randrange(8)
        elif kind == "byte" and size:
            data[start] = draw.choice((0, 1, 10, 13, 34, 39, 44, 91, 92, 123, 127, 128, 254, 255, draw.randrange(256)))
        elif kind == "insert":
            data[start:start] = draw.choice(
                (b"\0", b"\xff\xfe", b"\r", b"\n", b'"', b"\xef\xbb\xbf", b"\x80", draw.randbytes(9))
            )
        elif kind == "cut":
            del data[start:end]
        elif kind == "double":
            data[start:start] = data[start:end]
        elif kind == "blank":
            data[start:end] = bytes([draw.choice((0, 32, 255))]) * (end - start)
        elif kind == "end":
            del data[start:]
        elif kind == "splice":
            place = draw.randrange(len(other) or 1)
            data[start:end] = other[place : place + draw.randrange(1, 400)]
        else:
            data[start : start + 4] = draw.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f")
            )
    return bytes(data)


def damage_text(text: str, draw: random.Random) -> str:
    """A word, number, line or sign of a text by another, twice, or gone."""
    for _ in range(draw.choice((1, 1, 2, 5))):
        parts = re.split(r"(\w+|\n|[^\w\s])", text)
        place = draw.randrange(len(parts))
        kind = draw.choice(("number", "text", "gone", "double", "sign", "many", "cut"))
        if kind == "number":
            numbers = [index for index, part in enumerate(parts) if part.isdigit()]
            parts[draw.choice(numbers or [place])] = draw.choice(NUMBERS)
        elif kind == "text":
            parts[place] = draw.choice(TEXTS)
        elif kind == "gone":
            parts[place] = ""
        elif kind == "double":
            parts[place:place] = parts[place : place + draw.choice((1, 3, 40))]
        elif kind == "sign":
            parts[place] = draw.choice(
                ('"', "'", ",", ";", "\t", "\r", "\n", "\r\n", "{", "}", "[", "]", ":", "\\", '""', " ")
            )
        elif kind == "many":
            parts[place] = draw.choice((*"[{(\"'\\,;\n \x00", "[[", '{"a":', "a,")) * draw.choice((3, 100, 2000, 20000))
        else:
            del parts[place:]
        text = "".join(parts)
    return text


def damage_json(value: Any, draw: random.Random) -> Any:
    """One value within, by another, under another name, deeper, or gone; the value itself is left alone."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not isinstance(value, dict | list) or not value or draw.random() < 0.03:
            return draw.choice(VALUES)
        node, above, key = value, value, None
        while isinstance(node, dict | list) and node and (key is None or draw.random() < 0.7):
            above, key = node, draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
            node = above[key]
        kind = draw.choice(("value", "value", "value", "gone", "name", "deep", "wrap", "text", "double"))
        if kind == "gone":
            del above[key]
        elif kind == "name" and isinstance(above, dict):
            above[draw.choice((f"{key}x", key.upper(), "", "name", "\ud83d", "x" * 300, "__class__"))] = above.pop(key)
        elif kind == "deep":
            for _ in range(draw.choice((3, 20, 100))):  # deeper ones are texts: json.dumps can't write them
                node = draw.choice(([node], {"a": node}))
            above[key] = node
        elif kind == "wrap":
            above[key] = draw.choice(([node], {"name": node}, str(node), [node, node]))
        elif kind == "text":
            above[key] = draw.choice((*TEXTS, *NUMBERS))
        elif kind == "double" and isinstance(node, list):
            above[key] = node * draw.choice((2, 100))
        else:
            above[key] = draw.choice(VALUES)
    return value


def json_text(value: Any, draw: random.Random) -> str:
    """JSON, with the mistakes that only its text can have."""
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if draw.random() < 0.85:
        return text
    return draw.choice((
        *(damage_text(text, draw), text[: draw.randrange(len(text) + 1)], f"{text}{text}", f"\ufeff{text}", f"{text},"),
        *("[" * 10**5, '{"a":' * 1000 + "1" + "}" * 1000, re.sub(r"(?<=\{)", '"a": 1, "a": 2, ', text, count=1)),
        *(re.sub(r"\d+", draw.choice(NUMBERS), text, count=1), text.replace('"', "'"), "", "\x00" * 9),
    ))  # fmt: skip


def write(path: Path, text: str | bytes) -> None:
    """Writes a text, lone surrogates as UTF-8 would have them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))


def odd_name(draw: random.Random, suffix: str = "") -> str:
    """The name of a file, as no one would choose it; a folder may stand before it."""
    stem = draw.choice(
        [*TEXTS, "a b", "train", "test", "exp[1]", "a" * 300, "a" * 240, "CON", ".hidden", "é" * 120, "*.png"]
    )
    name = f"{stem}{draw.choice((suffix, suffix, suffix, *SUFFIXES))}".replace("\0", "_") or "_"
    return name.encode("utf-8", "replace").decode()  # file systems have no lone surrogates


def odd_entry(path: Path, draw: random.Random) -> None:
    """A file or folder replaced by a link, a pipe, a folder, nothing, or moved to an odd name."""
    kind = draw.choice(
        ("gone", "name", "name", "self", "above", "nowhere", "pipe", "folder", "empty", "null", "endless", "modes")
    )
    if kind == "name":
        try:
            new = path.parent / odd_name(draw, path.suffix)
            if path.parent.resolve() in new.parent.resolve().parents or path.parent.resolve() == new.parent.resolve():
                path.rename(new)
        except (OSError, ValueError):
            pass
        return
    if kind == "modes":
        path.chmod(0)
        return
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind in ("self", "above", "nowhere", "null", "endless"):
        targets = {"self": path.name, "above": "..", "nowhere": "nowhere", "null": os.devnull, "endless": "/dev/zero"}
        path.symlink_to(targets[kind])
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        (path / "inner").mkdir(parents=True)
    elif kind == "empty":
        path.touch()


def damage_file(path: Path, draw: random.Random, others: Sequence[Path] = ()) -> None:
    """One file damaged in the way that its kind allows, or as bytes."""
    content = path.read_bytes()
    if path.suffix in (".json", ".jsonl") and draw.random() < 0.7:
        text = content.decode(errors="replace")
        lines = text.splitlines() if path.suffix == ".jsonl" else [text]
        place = draw.randrange(len(lines)) if lines else 0
        try:
            lines[place : place + 1] = [json_text(damage_json(json.loads(lines[place]), draw), draw)]
        except (ValueError, IndexError, RecursionError):  # the second damage of a file that nests deeply
            lines = [damage_text(text, draw)]
        write(path, "\n".join(lines))
    elif path.suffix in (".csv", ".txt", ".py", ".json", ".jsonl") and draw.random() < 0.7:
        write(path, damage_text(content.decode("utf-8", "surrogateescape"), draw))
    else:
        write(path, damage_bytes(content, draw, draw.choice(others).read_bytes() if others else b""))


def copied(source: Path, name: str = "") -> Path:
    """A file or folder of the session, copied into the current folder."""
    target = Path(name or source.name)
    shutil.copytree(source, target, symlinks=True) if source.is_dir() else shutil.copy(source, target)
    return target


def files_in(folder: Path) -> list[Path]:
    """All plain files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def several(draw: random.Random, change: Callable[[], None]) -> None:
    """A change once, often; twice or more, or not at all, seldom."""
    for _ in range(draw.choice((0, *[1] * 8, *[2] * 4, 3, 3, 5))):
        change()
