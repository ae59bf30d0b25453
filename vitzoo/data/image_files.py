"""Which files are taken for images, how such a file is opened and its pixels are read, and how many at once."""

import contextlib
import io
import threading
import warnings
from collections.abc import Iterator
from pathlib import PurePath

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

IMAGE_ENDINGS = {
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".tga", ".ico"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif", ".heic", ".heif"),
}
"""Of files that are taken for images; of some kinds PIL may be unable to read them, which is then said."""
# PIL warns from half of the number of pixels that it refuses; a refusal that names the file is enough.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
# of damage that it could read past
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")


def is_image(path: str | PurePath) -> bool:
    """Whether a file's ending is that of an image."""
    return PurePath(path).suffix.lower() in IMAGE_ENDINGS


class BadImage(Exception):
    """An image that can't be read: `reason` says why, `path` which (empty until a source adds it)."""

    def __init__(self, reason: str, path: str = ""):
        self.reason, self.path = reason, path
        super().__init__(f"{path}: {reason}" if path else reason)

    def __reduce__(self):
        return type(self), (self.reason, self.path)


def open_image(content: bytes) -> Image.Image:
    """A file's image, of which PIL has read only the head.

    Only readers of the kinds in `IMAGE_ENDINGS` are tried, whatever the file's name: among PIL's others is one that
    starts a program (Ghostscript, for PostScript).

    Raises:
        BadImage: it is empty, or of none of these kinds.
    """
    if not content:
        raise BadImage("empty: 0 bytes")
    kinds = readable_kinds()
    try:
        return Image.open(io.BytesIO(content), formats=kinds)
    except UnidentifiedImageError as error:
        begun = [kind for kind in kinds if (begins := Image.OPEN[kind][1]) and begins(content[:16]) is True]
        if begun:
            raise BadImage(f"damaged: it begins as {begun[0]}, and no image can be read from it") from error
        raise BadImage(f"not an image of a kind that is read ({', '.join(kinds)})") from error


def readable_kinds() -> list[str]:
    """PIL's names of the kinds of images that are read here; a plug-in of PIL's may add HEIF."""
    known = Image.registered_extensions()
    return sorted({known[ending] for ending in IMAGE_ENDINGS if ending in known})


try:
    import simplejpeg
except ImportError:
    simplejpeg = None


def fast_pixels(content: bytes, opened: Image.Image) -> np.ndarray | None:
    """The file's pixels, uint8 [height, width, 3], or None where PIL has to read it.

    Only plain colour photographs are taken: both libraries hand those to libjpeg-turbo with the same settings. What PIL
    would turn, convert, or read in spite of damage is left to PIL, and so is saying what is wrong with a file.

    Args:
        content: the whole file.
        opened: the same file as PIL opened it, of which only the head has been read.
    """
    if simplejpeg is None or opened.format != "JPEG" or opened.mode != "RGB":
        return None
    if opened.getexif().get(ExifTags.Base.Orientation, 1) != 1:
        return None
    try:
        _, _, colours, _ = simplejpeg.decode_jpeg_header(content)
        return simplejpeg.decode_jpeg(content, "RGB") if colours == "YCbCr" else None
    except Exception:  # whatever it is that it can't read, PIL says what is wrong, or reads it
        return None


MOST_PIXELS = 2**27
"""Of all images that are being decoded and resized. One that has more itself is read alone."""

_taken = 0
_changed = threading.Condition()


@contextlib.contextmanager
def room_for(pixels: int) -> Iterator[None]:
    """Waits until an image of so many pixels fits beside those that other threads are at work on."""
    global _taken
    with _changed:
        _changed.wait_for(lambda: _taken == 0 or _taken + pixels <= MOST_PIXELS)
        _taken += pixels
    try:
        yield
    finally:
        with _changed:
            _taken -= pixels
            _changed.notify_all()
