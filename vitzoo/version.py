"""Which vitzoo this is."""

from importlib import metadata

SOFTWARE = "vitzoo"
"""What our pictures say of themselves as `Software`, by which they are told from others, which aren't replaced."""


def version() -> str:
    """The version that is installed; `0+unknown` of a checkout that never was."""
    try:
        return metadata.version("vitzoo")
    except metadata.PackageNotFoundError:
        return "0+unknown"
