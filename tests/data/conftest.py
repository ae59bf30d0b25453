import pathlib

import pytest
from made_pictures import picture


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    """Each test has its own cache of image folders."""
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path) -> pathlib.Path:
    """A folder of 10 cats (bright) and 20 dogs (dark), of several sizes."""
    root = tmp_path / "photos"
    for name, count, base in (("cat", 10, 200), ("dog", 20, 20)):
        for number in range(count):
            picture(root / name / f"{number:02}.png", (10 + number, 12), (base + number, base, base))
    return root
