"""Names in any script in the pictures that are drawn: in a font that has their characters, or told in one line."""

import json
import warnings

import matplotlib.font_manager
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.figure import Figure
from PIL import Image

from vitzoo import fonts
from vitzoo.cli import main
from vitzoo.evaluation import pictures
from vitzoo.training import curves

NAMES = ("猫", "강아지", "नमस्ते")
LATIN = ("café", "Ünï", "Ωmega", "собака")
"""What the plain font has."""


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    """Every test begins as a process does, with the fonts that come with Matplotlib alone, and raw warnings fail it."""
    own = [font for font in matplotlib.font_manager.fontManager.ttflist if "matplotlib" in font.fname]
    monkeypatch.setattr(matplotlib.font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr(fonts, "_said", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("text", ["猫猫犬猫", "ሀሁሀሁ", "猫 猫"])
def test_a_character_is_named_once(text, capsys):
    fonts.tell_missing(text.replace(" ", ""))
    listed = capsys.readouterr().err.partition("has ")[2].partition(":")[0].split()
    assert listed == list(dict.fromkeys(text.replace(" ", "")))


@pytest.fixture
def font_with_all(tmp_path):
    """A font whose characters are black squares, installed."""
    text = sorted(set("".join(NAMES)))
    pen = TTGlyphPen(None)
    for corner in [(0, 0), (0, 900), (900, 900), (900, 0)]:
        (pen.lineTo if corner != (0, 0) else pen.moveTo)(corner)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    names = [".notdef", *(f"u{ord(character):04X}" for character in text)]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(character): name for character, name in zip(text, names[1:], strict=True)})
    empty = TTGlyphPen(None).glyph()
    builder.setupGlyf(
        {name: pen.glyph() if name != ".notdef" else empty for name in names[:2]} | dict.fromkeys(names[2:], empty)
    )
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=900)
    builder.setupPost()
    builder.save(tmp_path / "squares.ttf")
    matplotlib.font_manager.fontManager.addfont(tmp_path / "squares.ttf")
    return tmp_path / "squares.ttf"


def confusion(path, names):
    count = np.arange(9) % len(names)
    rows = {"label": count, "prediction": np.roll(count, 1), "rank": np.ones(9, int)}
    assert pictures.draw_confusion(rows, names, path / "confusion.png")


def many_confused(path, names):
    names = tuple(f"{names[0]}{index}" for index in range(30))
    rows = {"label": np.arange(30), "prediction": np.roll(np.arange(30), 1), "rank": np.ones(30, int)}
    assert pictures.draw_confusion(rows, names, path / "confusion.png")


def mistakes(path, names):
    rows = {"label": np.zeros(2, int), "prediction": np.ones(2, int), "rank": np.ones(2, int)}
    rows |= {"probability": np.array([0.9, 0.8]), "position": np.arange(2)}
    assert pictures.draw_mistakes(rows, names, lambda _: np.zeros((4, 4, 3), np.uint8), path / "mistakes.png")


def curve(path, names):
    lines = [{"step": step, "split": names[0], "loss": 1.0 / step} for step in (1, 2)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert curves.draw(path)


def sweep(path, names):
    runs = [({"data.name": f"folder:{name}"}, 0.5) for name in names]
    assert curves.draw_sweep(path / "sweep.png", "val/accuracy", runs)


def sheet(path, names):
    for name in names:
        (path / "photos" / name).mkdir(parents=True)
        for index in range(2):
            Image.new("RGB", (8, 8), (index, len(name), 9)).save(path / "photos" / name / f"{index}.png")
    assert main(["data", "show", f"folder:{path / 'photos'}", "--output", str(path / "sheet.png")]) == 0


DRAWN = (confusion, many_confused, mistakes, curve, sweep, sheet)


@pytest.mark.parametrize("draw", DRAWN)
def test_characters_that_no_font_has_are_told_in_one_line(draw, tmp_path, capsys):
    draw(tmp_path, NAMES)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: no installed font has ")
    assert "猫" in line or "강" in line
    assert "Noto Sans CJK" in line


@pytest.mark.parametrize("draw", DRAWN)
def test_a_font_that_has_them_is_taken(draw, tmp_path, capsys, font_with_all):
    draw(tmp_path, NAMES)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("draw", DRAWN)
def test_what_the_plain_font_has_needs_no_other(draw, tmp_path, capsys):
    draw(tmp_path, LATIN)
    assert capsys.readouterr().err == ""


def test_the_fonts_own_signs_are_drawn(tmp_path, font_with_all):
    """A square of the made font is black; what a font without the character draws is a frame."""
    first = min("".join(NAMES))
    figure = Figure(figsize=(1, 1), dpi=100)
    figure.text(0.2, 0.2, first, fontsize=40)
    fonts.save_figure(figure, tmp_path / "square.png")
    drawn = np.asarray(Image.open(tmp_path / "square.png").convert("L"))
    rows, columns = np.nonzero(drawn < 128)
    assert (drawn[rows.min() + 2 : rows.max() - 2, columns.min() + 2 : columns.max() - 2] < 128).all()
    assert fonts.font_file(first) == (str(font_with_all), "")


def test_each_character_is_told_once(tmp_path, capsys):
    confusion(tmp_path, NAMES)
    mistakes(tmp_path, NAMES)
    assert len(capsys.readouterr().err.splitlines()) == 1
    confusion(tmp_path, ("犬", "cat", "dog"))
    assert "犬" in capsys.readouterr().err
