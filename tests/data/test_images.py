"""Every readable image becomes pixels of the right colour; every other names its file."""

import io

import numpy as np
import pytest
from made_pictures import picture
from PIL import Image

from vitzoo.data.images import BadImage, decode, resize, resize_eval
from vitzoo.data.settings import Preprocessing

JAX_NAMES = {"bilinear": "linear", "bicubic": "cubic", "lanczos": "lanczos3"}


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_grey_is_repeated_and_colour_is_weighed():
    grey = encoded(Image.new("L", (4, 2), 90), "PNG")
    assert (decode(grey) == 90).all()
    assert decode(grey).shape == (2, 4, 3)
    assert decode(grey, 1).shape == (2, 4, 1)
    green = encoded(Image.new("RGB", (1, 1), (0, 255, 0)), "PNG")
    assert decode(green, 1).item() == 150  # ITU-R 601: 0.587 * 255 = 149.7


def test_pure_cmyk_yellow_and_magenta_is_red():
    assert decode(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100))[4, 4] == pytest.approx(
        [255, 0, 0], abs=2
    )


def test_transparency_is_laid_on_white():
    clear = Image.new("RGBA", (2, 1), (10, 20, 30, 0))
    clear.putpixel((1, 0), (10, 20, 30, 255))
    assert decode(encoded(clear, "PNG")).tolist() == [[[255, 255, 255], [10, 20, 30]]]


def test_a_palette_with_a_transparent_entry_is_read():
    image = Image.new("P", (2, 1))
    image.putpalette([200, 0, 0, 0, 0, 200])
    image.putpixel((1, 0), 1)
    assert decode(encoded(image, "PNG", transparency=0)).tolist() == [[[255, 255, 255], [0, 0, 200]]]


def test_the_first_frame_of_an_animation_is_taken():
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    content = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decode(content)[0, 0].tolist() == [255, 0, 0]


def test_a_file_is_read_by_content_not_by_ending(tmp_path):
    path = picture(tmp_path / "photo.jpg", color=(1, 2, 3), format="PNG")
    assert decode(path)[0, 0].tolist() == [1, 2, 3]


def test_exif_orientation_6_shows_a_4_by_8_file_as_8_by_4():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (8, 4))
    image.paste((255, 0, 0), (0, 0, 4, 4))  # the left half of the file is the top half as shown
    shown = decode(encoded(image, "PNG", exif=exif))
    assert shown.shape == (8, 4, 3)
    assert shown[0, 0].tolist() == [255, 0, 0]
    assert shown[7, 3].tolist() == [0, 0, 0]


def test_sixteen_bits_are_scaled_not_clipped():
    values = np.array([[0, 257, 32_896, 65_535]], np.uint16)
    assert decode(encoded(Image.fromarray(values), "PNG"), 1)[0, :, 0].tolist() == [0, 1, 128, 255]
    assert decode(values, 3)[0, :, 2].tolist() == [0, 1, 128, 255]


def test_one_bit_images_are_black_and_white():
    assert decode(encoded(Image.new("1", (1, 1), 1), "PNG")).ravel().tolist() == [255, 255, 255]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "0 bytes"), (b"hello, this is text", "not an image"), (b"GIF89a", ": damaged: it begins as GIF")],
)
def test_what_is_no_image_is_named(tmp_path, content, reason):
    path = tmp_path / "odd.jpg"
    path.write_bytes(content)
    with pytest.raises(BadImage, match=reason) as raised:
        decode(path)
    assert raised.value.path == str(path)


def test_half_a_file_is_never_a_half_grey_image(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    for kind in ("JPEG", "PNG"):
        content = encoded(Image.fromarray(noise), kind)
        with pytest.raises(BadImage, match="can't be read"):
            decode(content[: len(content) // 2])


def test_an_image_too_large_to_open_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(BadImage, match="too large"):
        decode(picture(tmp_path / "huge.png", (10, 10)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadImage, match=r"gone.png: no such file"):
        decode(tmp_path / "gone.png")


def test_floats_and_odd_channels_are_refused():
    with pytest.raises(BadImage, match="float32"):
        decode(np.zeros((2, 2), np.float32))
    with pytest.raises(BadImage, match=r"\(2, 2, 5\)"):
        decode(np.zeros((2, 2, 5), np.uint8))


def test_squash_changes_proportions_and_crop_keeps_them():
    image = np.zeros((10, 30, 3), np.uint8)
    image[:, 10:20] = 255
    crop = resize_eval(image, (10, 10), Preprocessing(resize="short_side_crop"))
    assert crop.shape == (10, 10, 3)
    assert (crop == 255).all()
    squashed = resize_eval(image, (10, 10), Preprocessing(resize="squash"))
    assert squashed.shape == (10, 10, 3)
    assert squashed[5, 0].max() < 10
    assert squashed[5, 5].min() > 245


def test_the_side_that_is_not_asked_for_is_rounded_down():
    image = np.random.default_rng(0).integers(0, 255, (20, 31, 3), np.uint8)
    crop = resize_eval(image, (16, 16), Preprocessing(resize="short_side_crop"))  # 24.8 columns
    assert (crop == resize(image, (16, 24), Preprocessing())[:, 4:20]).all()
    padded = resize_eval(image, (20, 20), Preprocessing(resize="pad"))  # 12.9 rows
    assert (padded[4:16] == resize(image, (12, 20), Preprocessing())).all()


def test_pad_fits_the_whole_image_between_black_borders():
    padded = resize_eval(np.full((10, 30, 1), 255, np.uint8), (30, 30), Preprocessing(resize="pad"))
    assert (padded[10:20] == 255).all()
    assert (padded[:10] == 0).all()
    assert (padded[20:] == 0).all()


def test_224_with_fraction_0875_is_resize_256_crop_224():
    image = np.random.default_rng(0).integers(0, 255, (256, 300, 3), np.uint8)
    cropped = resize_eval(image, (224, 224), Preprocessing(resize="short_side_crop", crop_fraction=0.875))
    assert (cropped == image[16:240, 38:262]).all()


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos"])
def test_without_antialiasing_points_are_read_as_jax_and_tensorflow_do(method):
    import jax

    image = np.random.default_rng(0).integers(0, 255, (24, 36, 3), np.uint8)
    ours = resize(image, (10, 15), Preprocessing(interpolation=method, antialias=False)).astype(int)
    theirs = jax.image.resize(image.astype(np.float32), (10, 15, 3), JAX_NAMES[method], antialias=False)
    assert np.abs(ours - np.asarray(theirs).clip(0, 255)).max() <= 0.501  # rounded to whole levels


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_resizing_is_that_of_jax(method):
    import jax

    image = np.random.default_rng(0).integers(0, 255, (24, 36, 1), np.uint8)
    ours = resize(image, (10, 15), Preprocessing(interpolation=method)).astype(int)
    theirs = jax.image.resize(image.astype(np.float32), (10, 15, 1), JAX_NAMES[method], antialias=True)
    assert np.abs(ours - np.asarray(theirs).clip(0, 255)).max() <= 1.01  # PIL rounds after each of its two passes
