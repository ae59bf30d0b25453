"""Only kinds of files that are listed are opened, whatever they raise is said of the file, and every kind of pixels has
its right brightness.
"""

import io
import pathlib
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

import vitzoo
from vitzoo.cli import main
from vitzoo.data.image_files import BadImage, open_image, readable_kinds
from vitzoo.data.images import decode
from vitzoo.data.modes import stored_channels
from vitzoo.data.sources.index import examine

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 0 8 8 rectfill\nshowpage\n"
METAFILE = (
    b"\xd7\xcd\xc6\x9a" + bytes(2) + struct.pack("<4hH", 0, 0, 8, 8, 96) + bytes(6) + b"\x01\x00\t\x00" + bytes(30)
)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tiff(values: np.ndarray, *, photometric: int = 1, sample_format: int = 1, bits: int = 0) -> bytes:
    """A little-endian TIFF of one strip, written by hand: PIL writes no such numbers."""
    bits, data = bits or values.dtype.itemsize * 8, values.tobytes()
    height, width = values.shape[0], len(data) * 8 // bits // values.shape[0]
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, height)]
    tags += [(279, len(data)), (339, sample_format)]
    entries = b"".join(struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(tags)) + entries + bytes(4)


def png(depth: int, colour: int, width: int, row: bytes, transparent: bytes) -> bytes:
    """A PNG of one row with a transparent colour, in the bits that the file has."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, 1, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            chunk(b"IHDR", head),
            chunk(b"tRNS", transparent),
            chunk(b"IDAT", zlib.compress(b"\0" + row)),
            chunk(b"IEND", b""),
        ]
    )


@pytest.fixture
def no_programs(monkeypatch):
    """No reader may start a program."""

    def started(*_, **__):
        raise AssertionError("a program was started")

    for name in ("Popen", "check_call", "check_output", "run"):
        monkeypatch.setattr(f"subprocess.{name}", started)


@pytest.mark.parametrize(
    "content", [POSTSCRIPT, METAFILE, encoded(Image.new("RGB", (8, 8)), "PCX"), b"8BPS\0\1" + bytes(60)]
)
@pytest.mark.parametrize("name", ["photo.jpg", "photo.png", "photo.tiff"])
def test_a_file_of_a_kind_that_is_not_listed_is_not_opened(tmp_path, no_programs, content, name):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadImage, match="not an image of a kind that is read"):
        decode(path)
    assert "not an image of a kind that is read" in examine(str(path)).error


def test_kinds_are_those_of_the_endings():
    assert {"JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "TGA", "ICO", "PPM", "JPEG2000"} <= set(readable_kinds())
    assert not {"EPS", "WMF", "PSD", "FITS", "PDF", "DDS"} & set(readable_kinds())


def test_images_are_opened_by_a_list_of_kinds_alone():
    root = pathlib.Path(vitzoo.__file__).parent
    calls = {
        path.name: re.findall(r"\bImage\.open\((?:[^()]|\([^()]*\))*\)", path.read_text())
        for path in root.rglob("*.py")
    }
    calls = {name: found for name, found in calls.items() if found}
    assert calls.keys() == {"image_files.py", "overwriting.py"}  # to read them, and to see whether vitzoo made one
    assert all("formats=" in call for found in calls.values() for call in found)


def test_a_listed_kind_under_another_listed_ending_is_opened(tmp_path):
    for kind in ("PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "JPEG2000", "MPO"):
        path = tmp_path / "photo.jpg"
        path.write_bytes(encoded(Image.new("RGB", (16, 16), "white"), kind))
        assert (decode(path) == 255).all()
        assert examine(str(path)).error == ""


@pytest.mark.parametrize(
    "raised",
    [
        *(RuntimeError("codec\nfailed"), NotImplementedError("BC7"), struct.error("needs 4 bytes"), MemoryError()),
        *(SyntaxError("no"), KeyError("tag"), ZeroDivisionError("dpi"), OverflowError("big"), AttributeError("fp")),
        *(AssertionError(), Image.DecompressionBombError("bomb"), zlib.error("bad"), RecursionError("deep")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_decoder_raises_is_said_of_the_file_in_one_line(tmp_path, monkeypatch, raised, capsys):
    for folder in ("cat", "dog"):
        for index in range(2):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.new("RGB", (8, 8)).save(tmp_path / folder / f"{index}.png")

    def load(self):
        raise raised

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load_prepare", load)
    with pytest.raises(BadImage) as caught:
        decode(tmp_path / "cat" / "0.png")
    assert "\n" not in str(caught.value)
    assert main(["data", "check", f"folder:{tmp_path}"]) in (1, 2)
    printed = capsys.readouterr()
    assert "0.png" in printed.out + printed.err
    assert "unexpected" not in printed.out + printed.err


@pytest.mark.parametrize("kind", ["AVIF", "WEBP", "TIFF", "GIF", "TGA", "ICO", "JPEG2000", "PPM", "BMP", "JPEG"])
def test_a_damaged_file_of_any_kind_is_an_image_or_named(kind):
    if kind not in readable_kinds():
        pytest.skip(f"this PIL has no {kind}")
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8))
    content, random = encoded(noise, kind), np.random.default_rng(1)
    for _ in range(30):
        damaged = bytearray(content[: random.integers(8, len(content))])
        damaged[random.integers(4, len(damaged))] ^= 1 << int(random.integers(8))
        try:
            assert decode(bytes(damaged)).dtype == np.uint8
        except BadImage as error:
            assert "\n" not in str(error)  # noqa: PT017 - either may be


DEEP = struct.pack(">3H", *[10_000] * 3)  # a transparent colour

# 10,000 of 65,535 is 38.9 of 255, and where white is 0 it is the rest, 216.1; of 12 bits white is 4095
GREY = np.array([[0, 10_000, 65_535]], "<u2")


@pytest.mark.parametrize(
    ("content", "right"),
    [
        (tiff(GREY), [0, 39, 255]),
        (tiff(GREY, photometric=0), [255, 216, 0]),
        (tiff(np.array([[0, 39, 255]], np.uint8), photometric=0), [255, 216, 0]),
        (tiff(np.array([[0x00, 0x08, 0x00]], np.uint8), bits=12), [0, 128]),  # 0 and 2048
        (tiff(np.array([[0x27, 0x1F, 0xFF]], np.uint8), bits=12), [39, 255]),  # 625 and 4095
        (encoded(Image.fromarray(GREY.astype(np.uint16)), "PNG"), [0, 39, 255]),
        (encoded(Image.fromarray(GREY.astype(np.uint16)), "TIFF", compression="tiff_adobe_deflate"), [0, 39, 255]),
        (b"P5 3 1 65535\n" + GREY.astype(">u2").tobytes(), [0, 39, 255]),
        (b"P5 3 1 1023\n" + np.array([[0, 156, 1023]], ">u2").tobytes(), [0, 39, 255]),
    ],
)
def test_grey_of_more_than_eight_bits_has_its_brightness(content, right):
    assert decode(content, 1)[0, :, 0].tolist() == right
    assert decode(content, 3)[0, :, 2].tolist() == right


@pytest.mark.parametrize(
    ("content", "right"),
    [
        (png(16, 0, 3, struct.pack(">3H", 300, 10_000, 301), struct.pack(">H", 300)), [[255] * 3, [39] * 3, [1] * 3]),
        (png(8, 0, 3, bytes([9, 39, 10]), struct.pack(">H", 9)), [[255] * 3, [39] * 3, [10] * 3]),
        (png(4, 0, 4, bytes([0x09, 0x3F]), struct.pack(">H", 9)), [[0] * 3, [255] * 3, [51] * 3, [255] * 3]),
        (png(2, 0, 4, bytes([0b00011011]), struct.pack(">H", 1)), [[0] * 3, [255] * 3, [170] * 3, [255] * 3]),
        (png(8, 2, 2, bytes([1, 2, 3, 4, 5, 6]), struct.pack(">3H", 1, 2, 3)), [[255] * 3, [4, 5, 6]]),
        (
            png(16, 2, 2, struct.pack(">6H", 300, 600, 900, 4000, 0, 0), struct.pack(">3H", 300, 600, 900)),
            [[255] * 3, [15, 0, 0]],
        ),
        (  # 10,001 is 39 as 10,000 is, and no transparent colour
            png(16, 2, 3, struct.pack(">9H", *[10_001] * 3, *[10_000] * 3, 10_000, 10_000, 9_999), DEEP),
            [[39] * 3, [255] * 3, [39] * 3],
        ),
        (png(16, 2, 2, struct.pack(">6H", *[1] * 3, *[0] * 3), struct.pack(">3H", 0, 0, 0)), [[0] * 3, [255] * 3]),
    ],
    ids=["16-bit", "8-bit", "4-bit", "2-bit", "colour", "colour of 16 bits", "neighbours", "black"],
)
def test_a_pngs_transparent_colour_is_white(content, right):
    assert decode(content)[0].tolist() == right


@pytest.mark.parametrize(
    "image",
    [
        tiff(np.array([[0, 200, 255]], "<u4")),
        tiff(np.array([[0, 200, 255]], "<i4"), sample_format=2),
        tiff(np.array([[0, 200, 255]], "<i2"), sample_format=2),
        tiff(np.array([[0, 100, 120]], np.int8), sample_format=2),
        tiff(np.array([[0, 0.5, 1]], "<f4"), sample_format=3),
        b"Pf 1 1 -1.0\n" + struct.pack("<f", 0.5),
        Image.fromarray(np.array([[0, 200, 255]], np.int32)),
        np.array([[0, 200, 255]], np.int32),
        np.array([[0, 200, 255]], np.int64),
        np.array([[0, 100, 120]], np.int8),
        np.array([[0, 0.5, 1]], np.float32),
    ],
)
def test_numbers_that_do_not_say_what_white_is_are_refused(image):
    with pytest.raises(BadImage, match="say what white is"):
        decode(image)


@pytest.mark.parametrize(
    ("mode", "color", "right"),
    [
        ("1", 1, [255, 255, 255]),
        ("L", 90, [90, 90, 90]),
        ("LA", (90, 255), [90, 90, 90]),
        ("LA", (90, 0), [255, 255, 255]),
        ("La", (90, 255), [90, 90, 90]),
        ("PA", (0, 0), [255, 255, 255]),
        ("RGBa", (90, 10, 20, 255), [90, 10, 20]),
        ("RGBX", (90, 10, 20, 0), [90, 10, 20]),
        ("CMYK", (0, 255, 255, 0), [255, 0, 0]),
        ("YCbCr", (90, 128, 128), [90, 90, 90]),
        ("HSV", (0, 255, 255), [255, 0, 0]),
        ("LAB", (255, 128, 128), [255, 255, 255]),  # L* of 100 percent
        ("I;16", 10_000, [39, 39, 39]),
        ("I;16B", 10_000, [39, 39, 39]),
    ],
)
def test_every_mode_of_pil_has_its_colour(mode, color, right):
    image = Image.new("L", (2, 2), 0).convert("P").convert("PA") if mode == "PA" else Image.new(mode, (2, 2), color)
    if mode == "PA":
        image.putalpha(0)
    assert decode(image)[1, 1] == pytest.approx(right, abs=1)
    grey = 0.299 * right[0] + 0.587 * right[1] + 0.114 * right[2]  # ITU-R 601
    assert decode(image, 1)[1, 1, 0] == pytest.approx(grey, abs=1)


def test_an_image_is_given_back_as_it_came():
    content = png(16, 2, 2, struct.pack(">6H", 300, 600, 900, 301, 600, 900), struct.pack(">3H", 300, 600, 900))
    image = Image.open(io.BytesIO(content))
    assert decode(image).tolist() == decode(image).tolist() == [[[255, 255, 255], [1, 2, 3]]]
    assert decode(image, 1).tolist() == [[[255], [2]]]


def test_of_colours_that_are_eight_bits_already_none_is_made_white_for_its_neighbour():
    image = Image.open(io.BytesIO(png(16, 2, 1, struct.pack(">3H", *[10_001] * 3), DEEP)))
    image.load()
    assert decode(image).tolist() == decode(image.copy()).tolist() == [[[39, 39, 39]]]


def test_a_transparent_colour_of_sixteen_bits_is_turned_with_its_image():
    content = png(16, 2, 2, struct.pack(">6H", *[10_001] * 3, *[10_000] * 3), DEEP)
    exif = Image.Exif()
    exif[274] = 3  # upside down, so that left is right
    block = b"eXIf" + exif.tobytes()[6:]
    at = content.index(b"IDAT") - 4
    turned = content[:at] + struct.pack(">I", len(block) - 4) + block + struct.pack(">I", zlib.crc32(block))
    assert decode(turned + content[at:])[0].tolist() == [[255] * 3, [39] * 3]


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("LA", 1), ("I;16", 1), ("1", 1), ("P", 3), ("RGBA", 3)])
def test_what_has_no_colour_has_one_channel(mode, channels):
    assert stored_channels(Image.new(mode, (1, 1))) == channels


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff"])
def test_damaged_exif_turns_nothing(kind, exif):
    assert (decode(encoded(Image.new("RGB", (8, 4), "white"), kind, exif=exif)) == 255).all()


def test_sixteen_bits_turned_by_exif_keep_their_brightness():
    directory = TiffImagePlugin.ImageFileDirectory_v2()
    directory[274] = 6
    shown = decode(encoded(Image.fromarray(GREY.astype(np.uint16)), "TIFF", tiffinfo=directory), 1)
    assert shown[:, 0, 0].tolist() == [0, 39, 255]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "ICO", "AVIF"])
def test_a_file_that_is_cut_off_in_its_head_is_called_damaged(kind):
    content = encoded(Image.fromarray(np.zeros((9, 9, 3), np.uint8)), kind)
    with pytest.raises(BadImage, match=f"^damaged: it begins as {kind}, and no image can be read from it$"):
        open_image(content[: 4 if kind == "JPEG" else 12])
