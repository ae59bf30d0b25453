"""Every part that a config can name, and where it is. Adding one is a file and a line here.

A name with a colon (`my_package.my_file:MyModel`) is the user's own, imported as it stands. The table holds text, so
that naming a part from a lower floor imports nothing until a config asks for it.
"""

import difflib
import importlib

from vitzoo.errors import Refused

PARTS: dict[str, dict[str, str]] = {
    "model": {
        "vit": "vitzoo.models.vit:ViT",
        "gpt": "vitzoo.models.gpt:GPT",
        "t5": "vitzoo.models.t5:T5",
        "bert": "vitzoo.models.bert:BERT",
        "transformer": "vitzoo.models.transformer:Transformer",
    },
    "objective": {
        "classification": "vitzoo.objectives.classification:Classification",
        "causal_lm": "vitzoo.objectives.causal_lm:CausalLanguageModelling",
        "masked_lm": "vitzoo.objectives.masked_lm:MaskedLanguageModelling",
        "regression": "vitzoo.objectives.regression:Regression",
        "seq2seq": "vitzoo.objectives.seq2seq:SequenceToSequence",
        "sequence_classification": "vitzoo.objectives.sequence_classification:SequenceClassification",
        "token_classification": "vitzoo.objectives.token_classification:TokenClassification",
    },
    "optimizer": {
        "adamw": "vitzoo.optim.adamw:AdamW",
        "sgd": "vitzoo.optim.sgd:SGD",
        "adafactor": "vitzoo.optim.adafactor:Adafactor",
    },
    "schedule": {
        "constant": "vitzoo.optim.schedules:Constant",
        "cosine": "vitzoo.optim.schedules:Cosine",
        "linear": "vitzoo.optim.schedules:Linear",
        "rsqrt": "vitzoo.optim.schedules:InverseSquareRoot",
    },
    "dataset": {
        "digits": "vitzoo.data.datasets.digits:Digits",
        "fashion_mnist": "vitzoo.data.datasets.fashion_mnist:FashionMnist",
        "mnist_5k": "vitzoo.data.datasets.mnist_5k:Mnist5k",
    },
    "text_dataset": {
        "stdlib": "vitzoo.data.text.sources.files:open_standard_library",
        "sums": "vitzoo.data.text.datasets.sums:open_sums",
        "speeches": "vitzoo.data.text.datasets.speeches:open_speeches",
        "verses": "vitzoo.data.text.datasets.verses:open_verses",
        "cmudict": "vitzoo.data.text.datasets.pronunciations:open_pronunciations",
        "spam": "vitzoo.data.text.datasets.spam:open_spam",
        "wordnet_topics": "vitzoo.data.text.datasets.definitions:open_definitions",
    },
    "evaluator": {
        "classification": "vitzoo.evaluation.classification:ClassificationEvaluator",
        "masked_lm": "vitzoo.evaluation.text_masked:MaskedEvaluator",
        "perplexity": "vitzoo.evaluation.perplexity:PerplexityEvaluator",
        "generation": "vitzoo.evaluation.generation:GenerationEvaluator",
        "multiple_choice": "vitzoo.evaluation.multiple_choice:MultipleChoiceEvaluator",
        "last_word": "vitzoo.evaluation.last_word:LastWordEvaluator",
        "regression": "vitzoo.evaluation.text_regression:RegressionEvaluator",
        "token_classification": "vitzoo.evaluation.text_tagging:TokenClassificationEvaluator",
    },
}


def find(kind: str, name: str) -> type:
    """The class that `name` stands for.

    Raises:
        Refused: the name is unknown (the nearest is named), or the user's own module can't be imported.
    """
    known, field = PARTS[kind], f"{'data' if kind.endswith('dataset') else kind}.name"
    if ":" not in name and name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}."
        raise Refused(field, name, f"no such {kind}; {hint} Your own is written package.module:Class")
    module, _, attribute = known.get(name, name).partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever the user's own module raises
        if name in known:
            raise
        raise Refused(field, name, f"can't be imported: {type(error).__name__}: {error}") from error
