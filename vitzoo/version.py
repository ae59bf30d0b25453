"""Which vitzoo this is."""

from importlib import metadata


def version() -> str:
    """The version that is installed; `0+unknown` of a checkout that never was."""
    try:
        return metadata.version("vitzoo")
    except metadata.PackageNotFoundError:
        return "0+unknown"
