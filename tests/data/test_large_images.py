"""Large images need little memory beside their own: each is converted in strips, and few pixels are decoded at once."""

import io
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from vitzoo.data import image_files, modes
from vitzoo.data.images import decode, model_pixels, point_weights, resize
from vitzoo.data.settings import Preprocessing

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (40, 31, 3), np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


KINDS = {
    "grey": encoded(Image.fromarray(COLOURS[..., 0])),
    "16 bits": encoded(Image.fromarray(RNG.integers(0, 65536, (40, 31), np.uint16))),
    "colours": encoded(Image.fromarray(COLOURS)),
    "alpha": encoded(Image.fromarray(RNG.integers(0, 256, (40, 31, 4), np.uint8))),
    "palette": encoded(Image.fromarray(COLOURS).quantize(16), transparency=3),
    "one transparent colour": encoded(Image.fromarray(COLOURS[..., 0] // 64 * 64), transparency=64),
    "CMYK": encoded(Image.fromarray(COLOURS).convert("CMYK"), "TIFF"),
    "one bit": encoded(Image.fromarray(COLOURS[..., 0]).convert("1")),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_strips_are_parts_of_the_whole(kind, channels, monkeypatch):
    whole = decode(KINDS[kind], channels)
    monkeypatch.setattr(modes, "STRIP", 7 * 31)  # 40 rows are not a multiple of 7
    np.testing.assert_array_equal(decode(KINDS[kind], channels), whole)


BYTES_A_PIXEL = 13
"""4 that PIL holds, 4 of a copy that is turned or has another mode, 3 of the result, and 2 for what is smaller."""
MEASURE = """
import io, os, resource, sys
import numpy as np
from PIL import Image
from vitzoo.data.images import model_pixels, resize_eval
from vitzoo.data.images import point_weights
from vitzoo.data.settings import Preprocessing

size = (2048, 4096)
grey, random = np.zeros(size, np.uint16), np.zeros((*size, 4), np.uint8)
cases = {
    "colours": (Image.fromarray(random[..., :3].copy()), {}),
    "alpha": (Image.fromarray(random), {}),
    "16 bits": (Image.fromarray(grey), {}),
    "palette": (Image.fromarray(random[..., 0].copy()).convert("P"), {"transparency": 0}),
    "16 bits, points": (Image.fromarray(grey), {}),
    "colours, bicubic points": (Image.fromarray(random[..., :3].copy()), {}),
    "colours, cut": (Image.fromarray(random[..., :3].copy()), {}),
}
settings = {
    "16 bits, points": Preprocessing(antialias=False),
    "colours, bicubic points": Preprocessing(antialias=False, interpolation="bicubic"),
    "colours, cut": Preprocessing(rounding="cut"),
}
files = {}
for name, (image, options) in cases.items():
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1, **options)
    files[name] = buffer.getvalue()
del cases, grey, random, image
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
model_pixels(files["colours"], 3, lambda pixels: pixels[:1])
for name, content in files.items():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = peak()
    preprocessing = settings.get(name, Preprocessing())
    model_pixels(content, 3, lambda pixels: resize_eval(pixels, (32, 32), preprocessing))
    print(name, (peak() - before) / (size[0] * size[1]), sep="|")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by /proc")
def test_no_kind_of_image_takes_many_times_its_pixels():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found = dict(line.split("|") for line in done.stdout.splitlines())
    assert len(found) == 7
    assert {name: cost for name, cost in found.items() if float(cost) > BYTES_A_PIXEL} == {}


@pytest.mark.parametrize(("pixels", "most"), [(100, 4), (250, 1), (400, 1), (1000, 1)])
def test_as_many_are_read_at_once_as_have_room(pixels, most, monkeypatch):
    monkeypatch.setattr(image_files, "MOST_PIXELS", 400)
    content, busy, seen, lock = encoded(Image.new("RGB", (pixels, 1))), 0, [], threading.Lock()

    def finish(image):
        nonlocal busy
        with lock:
            busy += 1
            seen.append(busy)
        time.sleep(0.01)
        with lock:
            busy -= 1
        return image

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: model_pixels(content, 3, finish), range(16)))
    assert max(seen) <= most
    assert len(seen) == 16


@pytest.mark.parametrize("method", ["bicubic", "lanczos"])
def test_points_of_a_large_image_are_those_of_the_formula(method):
    """Of an image much larger than the result most pixels count nothing, and are left out of the sum."""
    image = RNG.integers(0, 256, (200, 170, 3), np.uint8)
    ours = resize(image, (9, 7), Preprocessing(interpolation=method, antialias=False, rounding="none"))
    rows, columns = point_weights(200, 9, method), point_weights(170, 7, method)
    np.testing.assert_allclose(ours, np.einsum("yh,xw,hwc->yxc", rows, columns, image.astype(float)), atol=1e-3)
