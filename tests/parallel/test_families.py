"""Every family trains on any mesh as it does on one device, whatever is recomputed and whether layers are scanned."""

import io
import json
import random

import jax
import pytest

import vitzoo.config
from vitzoo.nn import paths
from vitzoo.parallel import mesh as meshes
from vitzoo.training import loop

STEPS = 12
SIZES = {"num_heads": 2, "mlp_dim": 64, "width": 32}
WORDS = ["the", "small", "cat", "sees", "a", "red", "bird", "and", "hears", "two", "dogs", "of"]
# how one is run: mesh, devices, remat, scan, accumulate
WAYS = [
    ("data:8", 8, "none", True, 1),
    ("fsdp:8", 8, "full", True, 1),
    ("data:2,fsdp:2,tensor:2", 8, "dots", False, 1),
    ("fsdp:2,tensor:4", 8, "none", True, 1),  # two heads don't divide over four
]
FAMILIES = {
    "vit": dict(name="vit", patch_size=2, depth=2, drop_path=0.1, **SIZES),
    "gpt": dict(name="gpt", depth=2, context_length=32, **SIZES),
    "llama": dict(
        name="gpt", depth=2, context_length=32, positions="rotary", norm="rms_norm", gated_mlp=True,
        activation="silu", bias=False, num_kv_heads=1, tied_head=False, **SIZES,
    ),
    "prefix": dict(name="gpt", depth=2, context_length=32, **SIZES),
    "t5": dict(name="t5", variant="v1.1-small", encoder_depth=2, decoder_depth=2, head_dim=16, **SIZES),
    "bert": dict(name="bert", variant="tiny", depth=2, context_length=32, **SIZES),
    "transformer": dict(name="transformer", variant="base", depth=2, **SIZES),
}  # fmt: skip
OBJECTIVES = {"prefix": "prefix_lm", "bert": "masked_lm", "t5": "seq2seq", "transformer": "seq2seq"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts, and pairs of a text and its words backwards."""
    folder, draw = tmp_path_factory.mktemp("texts"), random.Random(0)
    lines = [draw.choices(WORDS, k=draw.randint(3, 9)) for _ in range(200)]
    (folder / "lines.txt").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    pairs = [{"source": " ".join(line), "target": " ".join(reversed(line))} for line in lines]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    return folder


def config_of(family, files, mesh, remat, scan, accumulate):
    config = vitzoo.config.default()
    config.total_steps = STEPS
    objective = OBJECTIVES.get(family, "classification" if family == "vit" else "causal_lm")
    config.objective = dict(name=objective)
    config.model = dict(dropout=0.1, **FAMILIES[family])
    if family == "t5":
        config.model.vocabulary_size = None
    if family == "vit":
        config.data = dict(name="digits", split="train[:200]", batch_size=16)
        config.augment = dict(mixup=0.2)
    else:
        name = f"jsonl:{files}/pairs.jsonl" if objective == "seq2seq" else f"text:{files}/lines.txt"
        config.data = dict(name=name, split="train", batch_size=16)
        config.tokenizer = dict(kind="bytes", masking=family == "bert")
        # 31 tokens divide over no mesh
        config.text = dict(document="line", sequence_length=31, source_length=31)
    config.mesh, config.remat, config.scan, config.accumulate = mesh, remat, scan, accumulate
    config.optimizer = dict(name="adamw", learning_rate=1e-3, weight_decay=0.1, grad_clip=1.0)
    config.log = dict(every_steps=1, tensorboard=False)
    return config


def losses(family, files, workdir, mesh="data:1", devices=1, remat="none", scan=True, accumulate=1):
    """Of every step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:devices])
        loop.train(config_of(family, files, mesh, remat, scan, accumulate), workdir, io.StringIO())
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["split"] == "train"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_those_of_one_device_on_every_mesh(family, files, tmp_path):
    alone = losses(family, files, tmp_path / "alone")
    assert len(alone) == STEPS
    for number, way in enumerate(WAYS):
        spread = losses(family, files, tmp_path / str(number), *way)
        assert spread == pytest.approx(alone, rel=1e-5), way


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_optimizer_state_is_spread_as_the_parameters_are(family, files):
    from vitzoo.training import setup

    resolved = vitzoo.config.resolve(config_of(family, files, "fsdp:8", "none", True, 1))
    task = setup.prepare(resolved, meshes.make_mesh("fsdp:8", jax.devices()[:8]))
    task.stream.close()
    params, moments = (paths.flatten(task.shardings[part]) for part in ("params", "optimizer"))
    spread = {path for path, place in params.items() if "fsdp" in place.spec}
    assert spread >= {path for path in params if path.endswith("/kernel")}
    for path in spread:
        own = [place for name, place in moments.items() if name.endswith(f"/{path}")]
        assert own, path
        assert all(place == params[path] for place in own), path
