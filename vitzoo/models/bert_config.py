"""What a BERT is: its sizes and settings. The model itself is in `bert.py`."""

import dataclasses
from typing import Any

from vitzoo.errors import UserError
from vitzoo.models import text
from vitzoo.nn.mlp import ACTIVATIONS
from vitzoo.schema import setting
from vitzoo.strict_json import JSON

HEADS = ("pretraining", "classes", "number", "token_classes", "none")
POOLINGS = ("mean", "cls")


def _sizes(width: int, depth: int) -> dict[str, Any]:
    return {"width": width, "depth": depth, "num_heads": width // 64, "mlp_dim": 4 * width, "vocabulary_size": 30_522}


VARIANTS: dict[str, dict[str, JSON]] = {
    "tiny": _sizes(128, 2),
    "mini": _sizes(256, 4),
    "small": _sizes(512, 4),
    "medium": _sizes(512, 8),
    "base": _sizes(768, 12),
    "large": _sizes(1024, 24),
}
PUBLISHED = list(VARIANTS)


@dataclasses.dataclass(frozen=True)
class BERTConfig(text.TextConfig):
    """What a BERT is."""

    VARIANTS = VARIANTS
    vocabulary_size: int | None = setting(None, "ids; none: the tokenizer's", minimum=1)
    context_length: int = setting(512, "most tokens of a text", minimum=1, maximum=2**24)
    sentence_types: int = setting(2, "kinds of sentences that a token may belong to", minimum=1)
    width: int = setting(768, "size of a token", minimum=1, maximum=2**17)
    depth: int = setting(12, "number of blocks", minimum=1, maximum=10_000)
    num_heads: int = setting(12, "attention heads; divides width", minimum=1)
    mlp_dim: int = setting(3072, "size between the two layers of a block's MLP", minimum=1, maximum=2**20)
    activation: str = setting("gelu_exact", "of the MLP and the masked tokens' head", choices=ACTIVATIONS)
    pooler: bool = setting(True, "a tanh layer on the first token, which the next sentence is read from")
    head: str = setting(
        "auto",
        "pretraining: masked tokens and next sentence; classes: of a text; number: of a text; token_classes: of each "
        "token; auto: as the objective asks, and without one classes where num_classes is set, else pretraining",
        choices=("auto", *HEADS),
    )
    head_reads: str = setting(
        "auto",
        "what head=classes or number reads: the pooler, or the text's embedding (`pooling`) in its place; auto: the "
        "pooler where there is one",
        choices=("auto", "pooler", "embedding"),
    )
    num_classes: int | None = setting(None, "of head=classes or token_classes; none: from the data", minimum=1)
    pooling: str = setting("mean", "a text's embedding is the mean of its tokens, or the first (cls)", choices=POOLINGS)
    unit_embedding: bool = setting(False, "a text's embedding, but not what a head reads, is scaled to the length 1")
    norm_epsilon: float = setting(1e-12, "added to the variance", above=0, maximum=0.1)
    dropout: float = setting(
        0.1, "after the embeddings, attention and MLP, and before a head of classes", minimum=0, below=1
    )
    attention_dropout: float = setting(0.1, "on the attention weights", minimum=0, below=1)

    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""
        text.check_divides("num_heads", self.num_heads, "width", self.width)
        if self.head_reads == "pooler" and not self.pooler:
            raise UserError(
                "head_reads", "pooler", "there is none (pooler=false); take embedding, or leave pooler true"
            )

    @property
    def head_kind(self) -> str:
        """Which of `HEADS` it has."""
        return self.head if self.head != "auto" else "classes" if self.num_classes else "pretraining"

    @property
    def head_input(self) -> str | None:
        """What a head of a whole text reads: `pooler`, `mean` or `cls`; None where there is no such head."""
        if self.head_kind not in ("classes", "number"):
            return None
        return "pooler" if self.pooler and self.head_reads != "embedding" else self.pooling

    @property
    def has_pooler(self) -> bool:
        """Whether the tanh layer is there: not under a head that reads the embedding in its place."""
        return self.pooler and self.head_input in (None, "pooler")
