"""Which files are taken for images, and how such a file is opened."""

import io
import warnings
from pathlib import PurePath

from PIL import Image, UnidentifiedImageError

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
        raise BadImage(f"not an image of a kind that is read ({', '.join(kinds)})") from error


def readable_kinds() -> list[str]:
    """PIL's names of the kinds of images that are read here; a plug-in of PIL's may add HEIF."""
    known = Image.registered_extensions()
    return sorted({known[ending] for ending in IMAGE_ENDINGS if ending in known})
