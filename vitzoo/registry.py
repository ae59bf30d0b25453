"""Every part that a config can name, and where it is. Adding one is a class and a line here.

A name with a colon (`my_package.my_file:MyModel`) is the user's own, imported as it stands. The table holds text, so
that naming a part from a lower floor imports nothing until a config asks for it.
"""

import difflib
import functools
import importlib
import sys
import traceback
from pathlib import Path
from typing import Any

from vitzoo.errors import RunError, UserError

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
        "causal_lm": "vitzoo.objectives.language_modelling:CausalLanguageModelling",
        "distillation": "vitzoo.objectives.distillation:Distillation",
        "masked_lm": "vitzoo.objectives.language_modelling:MaskedLanguageModelling",
        "prefix_lm": "vitzoo.objectives.language_modelling:PrefixLanguageModelling",
        "regression": "vitzoo.objectives.text_labels:Regression",
        "seq2seq": "vitzoo.objectives.language_modelling:SequenceToSequence",
        "sequence_classification": "vitzoo.objectives.text_labels:SequenceClassification",
        "token_classification": "vitzoo.objectives.text_labels:TokenClassification",
    },
    "optimizer": {
        "adamw": "vitzoo.optim.optimizers:AdamW",
        "sgd": "vitzoo.optim.optimizers:SGD",
        "adafactor": "vitzoo.optim.optimizers:Adafactor",
        "lamb": "vitzoo.optim.optimizers:LAMB",
        "lion": "vitzoo.optim.optimizers:Lion",
        "t5_adafactor": "vitzoo.optim.optimizers:T5Adafactor",
    },
    "schedule": {
        "constant": "vitzoo.optim.schedules:Constant",
        "cosine": "vitzoo.optim.schedules:Cosine",
        "linear": "vitzoo.optim.schedules:Linear",
        "rsqrt": "vitzoo.optim.schedules:InverseSquareRoot",
    },
    "dataset": {
        "digits": "vitzoo.data.datasets.digits:Digits",
        "fashion_mnist": "vitzoo.data.datasets.mnist:FashionMnist",
        "mnist_5k": "vitzoo.data.datasets.mnist:Mnist5k",
        "vtab": "vitzoo.data.datasets.vtab:Vtab",
        "stdlib": "vitzoo.data.sources.text_files:open_standard_library",
        "sums": "vitzoo.data.datasets.pairs:open_sums",
        "speeches": "vitzoo.data.datasets.corpora:open_speeches",
        "verses": "vitzoo.data.datasets.pairs:open_verses",
        "cmudict": "vitzoo.data.datasets.pairs:open_pronunciations",
        "spam": "vitzoo.data.datasets.corpora:open_spam",
        "wordnet_topics": "vitzoo.data.datasets.corpora:open_definitions",
        "tasks": "vitzoo.data.datasets.tasks:Tasks",
        "wikitext103": "vitzoo.data.datasets.corpora:open_wikitext",
    },
    "input": {
        "image": "vitzoo.data.settings:Preprocessing",
        "text": "vitzoo.data.text.settings:Text",
    },
    "evaluator": {
        "classification": "vitzoo.evaluation.classification:ClassificationEvaluator",
        "real_accuracy": "vitzoo.evaluation.classification:RealAccuracyEvaluator",
        "calibration": "vitzoo.evaluation.classification:CalibrationEvaluator",
        "knn": "vitzoo.evaluation.frozen:KNNEvaluator",
        "few_shot": "vitzoo.evaluation.frozen:FewShotEvaluator",
        "linear_probe": "vitzoo.evaluation.frozen:LinearProbeEvaluator",
        "masked_lm": "vitzoo.evaluation.language_modelling:MaskedEvaluator",
        "objective": "vitzoo.evaluation.objective:ObjectiveEvaluator",
        "perplexity": "vitzoo.evaluation.language_modelling:PerplexityEvaluator",
        "generation": "vitzoo.evaluation.generation:GenerationEvaluator",
        "multiple_choice": "vitzoo.evaluation.questions:MultipleChoiceEvaluator",
        "last_word": "vitzoo.evaluation.language_modelling:LastWordEvaluator",
        "regression": "vitzoo.evaluation.text_labels:RegressionEvaluator",
        "token_classification": "vitzoo.evaluation.text_labels:TokenClassificationEvaluator",
    },
}


OF_FILES = "data are named csv:FILE, folder:PATH, jsonl:FILE or text:FILE, by a dataset's name, or my_file:my_data"
"""What `data.name` may be, where it is something else."""

USER_PARTS: dict[str, str] = {}
"""The user's own parts that were found, and the setting that names each."""


def find(kind: str, name: str, field: str = "") -> type:
    """The class that `name` stands for.

    Args:
        kind: a key of `PARTS`.
        name: of a part, or `module:Class`.
        field: the setting that names it, where that isn't `KIND.name`.

    Raises:
        UserError: the name is unknown (the nearest is named), or the user's own module can't be imported.
    """
    known, field = PARTS[kind], field or f"{'data' if kind == 'dataset' else kind}.name"
    if ":" not in name and name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}."
        raise UserError(field, name, f"no such {kind}; {hint} Your own is written package.module:Class")
    if name in known:
        module, _, attribute = known[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    return _user_part(name, field)


def _user_part(name: str, field: str) -> type:
    """The user's own part of this name.

    Raises:
        UserError: it can't be imported, or is Python's own: nothing of that may be called by a config's word.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        lacking = "behind" if module else "before"
        raise UserError(field, name, f"has no name {lacking} the colon; your own is written package.module:Class")
    _refuse_pythons(name, field, module)
    USER_PARTS[name] = field
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:  # one that the user's own imports
            raise UserError(field, name, f"can't be imported: {type(error).__name__}: {error}") from error
        what = f"run in the folder of {error.name}.py, or name that folder in $PYTHONPATH"
        what = f"{OF_FILES}; for the last, {what}" if field.endswith("data.name") else what
        raise UserError(field, name, f"there is no module {error.name} to import; {what}") from error
    except (Exception, SystemExit) as error:  # whatever the user's own module raises
        raise UserError(field, name, f"can't be imported: {type(error).__name__}: {error}") from error
    made = found
    while isinstance(made, functools.partial):
        made = made.func
    if callable(made):
        _refuse_pythons(name, field, getattr(made, "__module__", None) or type(made).__module__)
    return found


def _refuse_pythons(name: str, field: str, module: str) -> None:
    if module.partition(".")[0] in sys.stdlib_module_names:
        wanted = "your own is a class or function of a file of yours, or of an installed package"
        raise UserError(field, name, f"is of Python's own module {module}; {wanted}")


def name_of(part: Any) -> str:
    """The name by which a config found a part's class; empty for what is vitzoo's."""
    for name in USER_PARTS:
        module, _, attribute = name.partition(":")
        if getattr(sys.modules.get(module), attribute, None) is type(part):
            return name
    return ""


class UserPartError(UserError):
    """A user's own part gave what it must not."""


class UserPartFaults:
    """A block in which an exception out of a user's own part ends as a refusal that names the part and the line; once
    `begun` is set, as a failure. A value that such a part must not give is its fault too.
    """

    begun = False

    def __enter__(self) -> "UserPartFaults":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, UserPartError) and self.begun:
            raise RunError(str(error)) from error
        if isinstance(error, Exception | SystemExit) and (refusal := user_part_fault(error)) is not None:
            raise (RunError(str(refusal)) if self.begun else refusal) from error


def user_part_fault(error: BaseException) -> UserError | None:
    """The refusal of the user's own part out of whose code an exception came; None where it came out of none."""
    if isinstance(error, UserError | RunError) or "RESOURCE_EXHAUSTED" in str(error):
        return None
    files = _user_part_files()
    passed = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    passed = [(code, line) for code, line in passed if code.co_filename in files]
    if not passed:
        return None
    # the innermost that is a part itself, and not a helper beside one
    parts = [files[code.co_filename].get(code.co_qualname.partition(".")[0], "") for code, _ in passed]
    code, line = passed[-1]
    name = next((part for part in reversed(parts) if part), next(iter(files[code.co_filename].values())))
    said = str(error).strip().partition("\n")[0]
    place = f"{Path(code.co_filename).name}:{line}: {type(error).__name__}"
    return UserError(USER_PARTS[name], name, f"{place}: {said}" if said else place)


def _user_part_files() -> dict[str, dict[str, str]]:
    """The files of the user's own parts, and in each the parts by the name that they have there."""
    files: dict[str, dict[str, str]] = {}
    for name in USER_PARTS:
        module, _, attribute = name.partition(":")
        file = getattr(sys.modules.get(module), "__file__", None)
        if file:
            files.setdefault(file, {})[attribute] = name
    return files
