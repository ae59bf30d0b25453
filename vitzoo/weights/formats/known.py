"""Every published format, and which of them a file is of."""

import importlib

from vitzoo.errors import UserError
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Format
from vitzoo.weights.formats.model_types import check_names, stated_format, what_it_says

FORMATS = {
    "nanogpt": "vitzoo.weights.formats.nanogpt:NanoGPT",
    "gpt2": "vitzoo.weights.formats.gpt2:GPT2",
    "openai-gpt": "vitzoo.weights.formats.gpt1:GPT1",
    "t5": "vitzoo.weights.formats.t5:T5",
    "t5x": "vitzoo.weights.formats.t5x:T5X",
    "bert": "vitzoo.weights.formats.bert:BERT",
    "vision_transformer": "vitzoo.weights.formats.vision_transformer:VisionTransformer",
    "big_vision": "vitzoo.weights.formats.big_vision:BigVision",
    "facebook-vit": "vitzoo.weights.formats.facebook_vit:FacebookViT",
    "timm-vit": "vitzoo.weights.formats.timm_vit:TimmViT",
    "torchvision-vit": "vitzoo.weights.formats.torchvision_vit:TorchvisionViT",
    "vit-pytorch": "vitzoo.weights.formats.vit_pytorch:VitPytorch",
    "hf-vit": "vitzoo.weights.formats.hf_vit:HFViT",
}
"""Name → class. The first that recognises a file is taken, so the stricter come first."""


WRITERS = (
    "gpt2",
    "openai-gpt",
    "t5",
    "bert",
    "hf-vit",
    "vision_transformer",
    "big_vision",
    "timm-vit",
    "torchvision-vit",
)
"""Those that go out too; the first of a model is the default."""


def find_format(name: str) -> Format:
    """The format of a name.

    Raises:
        UserError: there is none.
    """
    if name not in FORMATS:
        raise UserError("--format", name, f"is none of {', '.join(FORMATS)}")
    module, _, attribute = FORMATS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)()


def recognise(source: Source) -> Format:
    """The format of a file: by the type or architecture that its `config.json` names, otherwise by its arrays' names.

    Raises:
        UserError: none knows it.
    """
    if (stated := stated_format(source)) is not None:
        return _as_stated(source, stated)
    check_names(source)
    trouble: UserError | None = None
    for name in FORMATS:
        found = find_format(name)
        try:
            if found.recognises(source):
                return found
        except Exception as error:  # a format that can't even look at a file doesn't know it
            trouble = trouble or (error if isinstance(error, UserError) else None)
    if trouble is not None:
        raise trouble
    names = sorted(source.tensors)
    shown = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
    raise source.refused(f"is of no format known here ({', '.join(FORMATS)}); its names are {shown}")


def check_format(source: Source, form: Format) -> None:
    """Refuses a file to be read in a format that isn't the one that its `config.json` tells."""
    stated = stated_format(source)
    if stated is not None and stated != form.name:
        raise UserError(
            "--source-format", form.name, f"{what_it_says(source)}, which is of the format {stated}; leave it out"
        )


def _as_stated(source: Source, stated: str) -> Format:
    form = find_format(stated)
    if not form.recognises(source):
        names = sorted(source.tensors)
        raise source.refused(
            f"{what_it_says(source)}, and its arrays don't have the names of one: {', '.join(names[:4])} ..."
        )
    return form
