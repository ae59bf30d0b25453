"""Every published format, and which of them a file is of: where transformers' `config.json` names a type or an
architecture, this alone decides, however much the names and shapes of its arrays are another's."""

import dataclasses
import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar, cast

import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.config.assembly import Assembly
from vitzoo.config.model import ModelChoice
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import Flat, ModelConfig
from vitzoo.nn.paths import flatten
from vitzoo.weights.files.weights import Weights, shown
from vitzoo.weights.mapping import Ignored, LeafMap, NameMap


class Given(TypedDict, total=False):
    """Settings of a model that a user states, converted: of all that it has, those that a format looks at."""

    num_heads: int
    image_size: int | tuple[int, int] | None
    patch_size: int | tuple[int, int]
    channels: int | None
    pooling: str
    positions: str
    activation: str
    gelu: str
    norm_epsilon: float


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file's names, shapes and `config.json` say.

    Attributes:
        model: `name` and the fields of the model's Config that differ from its defaults.
        names: how the file names the model's leaves.
        ignored: names that are left aside, each with a reason.
        objective: `name` and fields: what the head is for.
        classes: names by index.
        preprocessing: of images, the keys of `data.settings.Preprocessing` that differ from its defaults, without
            `size` and `channels`; of text, fields of `data.text.settings.Text`.
        tokenizer: of text.
        notes: lines for the report: what was taken where the file leaves a choice.
    """

    model: Mapping[str, Any]
    names: NameMap
    ignored: tuple[Ignored, ...] = ()
    objective: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "classification"})
    classes: tuple[str, ...] | None = None
    preprocessing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: TextTokenizer | None = None
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def config(self) -> ModelConfig:
        """The model's Config.

        Raises:
            UserError: a value is none that it accepts.
        """
        return ModelChoice("").over(self.model).config()

    @functools.cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the model's leaves, by path."""
        _, shapes = Assembly(self.model["name"], self.config).abstract
        return {path: leaf.shape for path, leaf in flatten(shapes).items()}

    @property
    def mapping(self) -> tuple[LeafMap, ...]:
        """Where each of our leaves stands in the file."""
        return self.names.of(self.shapes)


@dataclasses.dataclass(frozen=True)
class Writing:
    """A checkpoint in another's format.

    Attributes:
        tensors: names and arrays, one at a time.
        config: the content of `config.json`.
        files: other files beside it, by name: JSON values, text or bytes.
        notes: lines for the report: what is kept in another way than here.
        file: the kind of the file of weights, `safetensors` or `npz`.
    """

    tensors: Iterator[tuple[str, np.ndarray]]
    config: Mapping[str, Any]
    files: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    file: str = "safetensors"


class Format(Protocol):
    """One family's layout. A class without state; `formats/registry.py` lists them all.

    Attributes:
        name: as `vitzoo convert --format` takes it.
        model: the model that it holds.
    """

    name: ClassVar[str]
    model: ClassVar[str]

    def recognises(self, source: Weights) -> bool:
        """Whether the file's names (and `config.json`) are this format's; shapes are looked at only in `read`."""
        ...

    def read(self, source: Weights, given: Given) -> Reading:
        """What it holds.

        Args:
            source: the file.
            given: settings of the model that a user states, for what can't be known from the file.

        Raises:
            UserError: it holds something that vitzoo's model has no setting for, or a setting must be given (named).
        """
        ...


Kind = TypeVar("Kind", bound=ModelConfig, contravariant=True)


class Writer(Format, Protocol[Kind]):
    """A format that goes out too."""

    def write(self, config: Kind, params: Flat, description: Description, tokenizer: TextTokenizer | None) -> Writing:
        """A checkpoint in this format.

        Args:
            config: the model's Config.
            params: its leaves by path.
            description: `model.json`.
            tokenizer: of text.

        Raises:
            UserError: the format has no place for one of the model's settings (named).
        """
        ...


@dataclasses.dataclass(frozen=True)
class Known:
    """A type of models that is read.

    Attributes:
        form: the format that reads it.
        architectures: transformers' classes of this type that a model here is, the body alone among them.
    """

    form: str
    architectures: tuple[str, ...]


BERTS = ("Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
HEADS = ("Model", "ForImageClassification")
T5S = ("ForConditionalGeneration", "Model", "WithLMHeadModel")
TYPES = {
    "bert": Known("bert", tuple(f"Bert{one}" for one in BERTS)),
    "gpt2": Known("gpt2", ("GPT2LMHeadModel", "GPT2Model")),
    "openai-gpt": Known("openai-gpt", ("OpenAIGPTLMHeadModel", "OpenAIGPTModel")),
    "t5": Known("t5", tuple(f"T5{one}" for one in T5S)),
    "mt5": Known("t5", tuple(f"{kind}{one}" for kind in ("MT5", "T5") for one in T5S)),
    "vit": Known("hf-vit", (*(f"ViT{one}" for one in HEADS), "ViTForMaskedImageModeling")),
    "deit": Known(
        "hf-vit",
        (*(f"DeiT{one}" for one in HEADS), "DeiTForImageClassificationWithTeacher", "DeiTForMaskedImageModeling"),
    ),
    "vit_mae": Known("hf-vit", ("ViTMAEForPreTraining", "ViTMAEModel")),
    "dinov2": Known("hf-vit", tuple(f"Dinov2{one}" for one in HEADS)),
    "dinov2_with_registers": Known("hf-vit", tuple(f"Dinov2WithRegisters{one}" for one in HEADS)),
    "siglip": Known("hf-vit", ("SiglipModel", "SiglipVisionModel", "SiglipForImageClassification")),
    "siglip_vision_model": Known("hf-vit", ("SiglipVisionModel",)),
}
BY_ARCHITECTURE = {one: name for name, known in reversed(TYPES.items()) for one in known.architectures}
"""The type that an architecture is of where nothing else says it: the first that has it."""
OWN_TABLES = "has a table of distances in every layer; here a stack has one"
WHY = {
    "umt5": OWN_TABLES,
    "UMT5Model": OWN_TABLES,
    "UMT5ForConditionalGeneration": OWN_TABLES,
    "BertForQuestionAnswering": "marks the beginning and the end of an answer; no model here does",
    "BertForMultipleChoice": "chooses among texts; no model here does",
    "BertForNextSentencePrediction": "tells next sentences and no masked tokens; no model here does",
    "BertLMHeadModel": "is a decoder; no BERT here is",
    "T5EncoderModel": "is the encoder of a T5 alone; here one has a decoder too",
    "MT5EncoderModel": "is the encoder of a T5 alone; here one has a decoder too",
}
"""Of types and architectures that aren't read, what they do that none here does, where it can be said shortly."""
UNREAD = {"quantization_config": "its weights are quantised", "pruned_heads": "some of its heads were taken out"}
"""Settings that say of any type that its arrays aren't plain, unless they are empty."""
BY_NAMES = {
    r"(.*[.])?(rope_embed[.]periods|storage_tokens)": "a DINOv3",
    r"(model[.])?layer[.]0[.]attention[.]o_proj[.]weight": "a DINOv3",
    r"(.*[.])?(relative_position_bias_table|rel_pos_bias|layer[.]0[.]lambda_1)": "a BEiT or its kin",
    r"(.*[.])?blocks[.]0[.]attn[.][qv]_bias": "a BEiT or its kin",
    r"(roberta|xlm_roberta|camembert)[.].*|lm_head[.]layer_norm[.]weight": "a RoBERTa",
    r"distilbert[.].*|transformer[.]layer[.]0[.]attention[.]q_lin[.]weight": "a DistilBERT",
    r"albert[.].*|(.*[.])?albert_layer_groups[.].*": "an ALBERT",
    r"electra[.].*|discriminator_predictions[.].*": "an ELECTRA",
    r"deberta[.].*": "a DeBERTa",
    r"(model[.])?layers[.]0[.]self_attn[.]q_proj[.]weight": "a LLaMA or its kin",
    r"(transformer[.])?h[.]0[.]attn[.](q_proj|attention[.]q_proj)[.]weight": "a GPT-J, GPT-Neo or CodeGen",
    r"gpt_neox[.].*": "a GPT-NeoX",
}
"""Names in the files of models that aren't read here, some of which share the others with models that are."""


def stated_format(source: Weights) -> str | None:
    """The format that a file is of by what lies beside it; None where nothing says it.

    Raises:
        UserError: `config.json` names a type or an architecture that isn't read here, or says that the arrays aren't
            plain.
    """
    config = source.config
    stated, architecture = config.get("model_type"), architecture_of(source)
    if stated is not None and (not isinstance(stated, str) or stated not in TYPES):
        raise source.refused(f"config.json has model_type = {shown(stated)}, which {_why(stated, ', '.join(TYPES))}")
    for name, reason in UNREAD.items():
        if config.get(name):
            raise source.refused(f"config.json has {name} = {shown(config[name])}: {reason}, which isn't read here")
    if stated is None and not architecture:
        return "timm-vit" if isinstance(config.get("architecture"), str) else None
    known = BY_ARCHITECTURE if stated is None else TYPES[stated].architectures
    if architecture and architecture not in known:
        why = _why(architecture, f"those of {', '.join(TYPES)}" if stated is None else ", ".join(known))
        raise source.refused(f"config.json has architectures = {shown(architecture)}, which {why}")
    return TYPES[BY_ARCHITECTURE[architecture] if stated is None else stated].form


def type_of(source: Weights) -> object:
    """The type that `config.json` names, or else that of its architecture; None where it says neither."""
    stated = source.config.get("model_type")
    return BY_ARCHITECTURE.get(architecture_of(source)) if stated is None else stated


def what_it_says(source: Weights) -> str:
    """The setting of `config.json` that decides, for messages."""
    if source.config.get("model_type") is not None:
        return f"config.json has model_type = {shown(source.config['model_type'])}"
    if architecture := architecture_of(source):
        return f"config.json has architectures = {shown(architecture)}"
    return f"config.json has architecture = {shown(source.config['architecture'])}"


def architecture_of(source: Weights) -> str:
    """transformers' class that wrote the file; "" where `config.json` doesn't say it."""
    stated = source.config.get("architectures") or [""]
    if not isinstance(stated, list) or not isinstance(stated[0], str):
        raise source.refused(f"config.json has architectures = {shown(stated)}; a list of names is right")
    return stated[0]


def check_names(source: Weights) -> None:
    """Refuses a file whose names are those of a model that isn't read here, by that model's name."""
    for pattern, model in BY_NAMES.items():
        found = next((name for name in source.tensors if re.fullmatch(pattern, name)), None)
        if found is not None:
            raise source.refused(f"is {model} by its names ({found}), which isn't read here")


def _why(stated: object, known: str) -> str:
    reason = WHY.get(stated) if isinstance(stated, str) else None
    return reason or f"isn't read here; known: {known}"


FORMATS = {
    "nanogpt": "vitzoo.weights.formats.gpt:NanoGPT",
    "gpt2": "vitzoo.weights.formats.gpt:GPT2",
    "openai-gpt": "vitzoo.weights.formats.gpt:GPT1",
    "t5": "vitzoo.weights.formats.t5:T5",
    "t5x": "vitzoo.weights.formats.t5:T5X",
    "bert": "vitzoo.weights.formats.bert:BERT",
    "vision_transformer": "vitzoo.weights.formats.google:VisionTransformer",
    "big_vision": "vitzoo.weights.formats.google:BigVision",
    "facebook-vit": "vitzoo.weights.formats.timm:FacebookViT",
    "timm-vit": "vitzoo.weights.formats.timm:TimmViT",
    "torchvision-vit": "vitzoo.weights.formats.torch_vit:TorchvisionViT",
    "vit-pytorch": "vitzoo.weights.formats.torch_vit:VitPytorch",
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


def find_writer(name: str) -> Writer[ModelConfig]:
    """The format of a name, one of `WRITERS`."""
    return cast(Writer[ModelConfig], find_format(name))


def recognise(source: Weights) -> Format:
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


def check_format(source: Weights, form: Format) -> None:
    """Refuses a file to be read in a format that isn't the one that its `config.json` tells."""
    stated = stated_format(source)
    if stated is not None and stated != form.name:
        raise UserError(
            "--source-format", form.name, f"{what_it_says(source)}, which is of the format {stated}; leave it out"
        )


def _as_stated(source: Weights, stated: str) -> Format:
    form = find_format(stated)
    if not form.recognises(source):
        names = sorted(source.tensors)
        raise source.refused(
            f"{what_it_says(source)}, and its arrays don't have the names of one: {', '.join(names[:4])} ..."
        )
    return form
