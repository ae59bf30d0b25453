"""How many photographs a core decodes, crops and flips, with the extra `fast` and without, side by side.

    python scripts/bench_input.py --height 375 --width 500 --rounds 10

The two take turns, so that whatever else the machine does meets both. Photographs are made: smooth colours under noise,
in JPEG's usual quality 90.
"""

import argparse
import io
import statistics
import time
import unittest.mock

import numpy as np
from PIL import Image

from vitzoo.data import image_files
from vitzoo.data.augment import augment_image
from vitzoo.data.images import decode
from vitzoo.data.settings import Augment, Preprocessing

SIZE = (224, 224)
ROW = Augment(crop="inception", flip=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=375)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--photographs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    photographs = [photograph(asked.height, asked.width, seed) for seed in range(asked.photographs)]
    steps = {"decode": decode, "decode, crop and flip": row}
    for name, step in steps.items():
        fast, plain = [], []
        for _ in range(asked.rounds):
            fast.append(seconds(step, photographs))
            with unittest.mock.patch.object(image_files, "simplejpeg", None):
                plain.append(seconds(step, photographs))
        print(
            f"{name}: PIL {asked.photographs / statistics.median(plain):.0f} photographs a second, "
            f"simplejpeg {asked.photographs / statistics.median(fast):.0f}, "
            f"ratio {statistics.median(p / f for p, f in zip(plain, fast, strict=True)):.2f}"
        )


def row(content: bytes) -> np.ndarray:
    return augment_image(decode(content), SIZE, ROW, Preprocessing(), seed=0, position=len(content))


def seconds(step, photographs: list[bytes]) -> float:
    start = time.perf_counter()
    for content in photographs:
        step(content)
    return time.perf_counter() - start


def photograph(height: int, width: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    colours = rng.integers(0, 256, (height // 16, width // 16, 3), np.uint8)
    smooth = Image.fromarray(colours).resize((width, height), Image.Resampling.BICUBIC)
    noisy = np.clip(np.asarray(smooth) + rng.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noisy).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


if __name__ == "__main__":
    if image_files.simplejpeg is None:
        raise SystemExit("simplejpeg isn't installed: pip install -e '.[fast]'")
    main()
