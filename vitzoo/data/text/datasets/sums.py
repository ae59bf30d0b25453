"""Sums of two numbers, which need no files (the adder of minGPT)."""

from typing import Any

import numpy as np

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.table import split_by_group
from vitzoo.data.text.sources.base import TextTable
from vitzoo.errors import UserError

DIGITS = {"sums": 2, "sums/1": 1, "sums/2": 2, "sums/3": 3}


class Sums:
    """Example a · 10^digits + b is `prompt` "85+50=" and `completion` "531": the sum of a and b with its last digit
    first, so that each digit follows from what is already there. All numbers are filled up with zeros in front.
    """

    def __init__(self, digits: int):
        self.digits = digits

    def __call__(self, index: int) -> dict[str, Any]:
        first, second = divmod(index, 10**self.digits)
        total = f"{first + second:0{self.digits + 1}}"
        return {"prompt": f"{first:0{self.digits}}+{second:0{self.digits}}=", "completion": total[::-1]}

    def where(self, index: int) -> str:
        return self(index)["prompt"]


def open_sums(data: Data) -> TextTable:
    """`sums` (of two digits; `sums/1`, `sums/3`): every pair of numbers once, split by a fixed permutation.

    Raises:
        UserError: other digits are asked for.
    """
    if data.name not in DIGITS:
        raise UserError("data.name", data.name, f"no such sums; there are: {', '.join(DIGITS)}")
    digits = DIGITS[data.name]
    sums, pairs = Sums(digits), np.arange(100**digits)
    return TextTable(
        name=data.name,
        fields=("prompt", "completion"),
        splits=split_by_group(pairs.tolist()),
        checksums=pairs.astype(np.uint64),
        read=sums,
        where=sums.where,
    )
