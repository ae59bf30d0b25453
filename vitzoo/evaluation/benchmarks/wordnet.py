"""ImageNet's classes, by WordNet id, among the outputs of a model."""

from collections.abc import Sequence

from vitzoo.errors import UserError

COUNT = 1000
KNOWN = {0: "tench", 1: "goldfish", 207: "golden retriever", 281: "tabby", 340: "zebra", 970: "alp"}
"""What the classes of these numbers are called, in the usual order, that of their WordNet ids."""


def as_wordnet(model: Sequence[str] | None, outputs: int, data: Sequence[str]) -> tuple[Sequence[str] | None, str]:
    """The names of a model's classes as the data call them, and a line that says what was assumed, if anything.

    A model with 1,000 outputs that have no names, or other names than WordNet ids, has ImageNet's classes in the usual
    order; of names some that are known are looked at.

    Args:
        model: the names of its classes, if known.
        outputs: how many there are.
        data: the dataset's names: WordNet ids, all 1,000.

    Raises:
        UserError: the names are in another order, or of other classes.
    """
    if model is not None and set(data) & set(model):
        return model, ""
    if outputs != COUNT or len(data) != COUNT:
        return model, ""
    if model is None:
        return data, "the model's 1,000 classes have no names and are taken as ImageNet's, in the order of WordNet ids"
    wrong = [number for number, name in KNOWN.items() if name not in model[number].lower().replace("_", " ")]
    if wrong:
        number = wrong[0]
        message = f"in ImageNet's order class {number} is {KNOWN[number]}, so these can't be matched with WordNet ids"
        raise UserError("classes", model[number], message)
    return data, "the model's 1,000 names are ImageNet's, in the order of WordNet ids"
