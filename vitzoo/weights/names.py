"""Names of published weights that aren't paths: those of the catalogue, and those of the hub."""

from vitzoo.errors import UserError
from vitzoo.spelling import misspelt
from vitzoo.weights import catalogue, hub

NEARLY = 0.9  # likeness from which a name is taken for a slip of one in the catalogue


def place_of(name: str) -> str | None:
    """The path that a name stands for, its files fetched if need be; None where it is no such name.

    Raises:
        UserError: it is one, and its files are neither here nor to be had.
    """
    entry = catalogue.find(name.partition("@")[0])
    if entry is not None and entry.file is not None:
        return entry.place() if entry.name == name else None
    if not hub.is_hub_name(name, known=entry is not None):
        return None
    try:
        return str(hub.fetch(name))
    except UserError as refusal:
        near = None if entry else misspelt(name, (one.name for one in catalogue.entries()), NEARLY)
        if near is None:
            raise
        raise UserError(refusal.field, refusal.value, f"{refusal.message}; did you mean {near}?") from None
