"""Starting a model of text from a checkpoint, or going on with a run: what must fit, and what is taken over."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_text_run import TOKENIZER, make_text_run

import vitzoo.config
from vitzoo.checkpoints.store import Store
from vitzoo.config import resolve
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.published import differing
from vitzoo.errors import UserError
from vitzoo.training import lock, setup, start


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of a GPT and of a T5 with a tokenizer of bytes, and data."""
    folder = tmp_path_factory.mktemp("runs")
    pairs = [{"prompt": f"say {n}", "completion": f"{n}"} for n in range(20)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    for name in ("gpt", "t5"):
        make_text_run(folder / name, name, f"jsonl:{folder}/pairs.jsonl")
    return folder


def config_of(made, init_from):
    config = vitzoo.config.default()
    config.total_steps = 1
    config.init_from = str(made / init_from)
    config.objective = dict(name="causal_lm", rows="answers")
    config.data = dict(name=f"jsonl:{made}/pairs.jsonl", batch_size=4)
    config.inputs.tokens.tokenizer = dict(kind="bpe", vocabulary_size=300)
    config.inputs.tokens = dict(length=32)
    config.evaluate = dict(val=dict(name="perplexity"))
    return config


def prepared(made, init_from="gpt", *flags):
    resolved = resolve(config_of(made, init_from), overrides=flags)
    return setup.prepare(resolved, setup.mesh_of(resolved.experiment))


@pytest.mark.parametrize(
    ("init_from", "flags", "message"),
    [
        ("t5", (), "init_from = .*/t5: holds t5, which is an encoder-decoder, and rows of answers are for"),
        ("gpt", ("evaluate.val.name=classification",), "evaluate.val.name = classification: measures"),
        ("gpt", ("evaluate.val.rows=pairs",), "evaluate.val.rows = pairs: of gpt perplexity measures rows"),
        (
            "gpt",
            ("inputs.tokens.tokenizer.kind=characters",),
            "inputs.tokens.tokenizer.kind = characters: the checkpoint's .* it is bytes; leave",
        ),
        (
            "gpt",
            ("inputs.tokens.tokenizer.vocabulary_size=500",),
            "inputs.tokens.tokenizer.vocabulary_size = 500: the .* is 259; leave",
        ),
    ],
)
def test_what_does_not_fit_the_checkpoints_model_or_its_tokenizer_is_refused(made, init_from, flags, message):
    with pytest.raises(UserError, match=f"^{message}"):
        prepared(made, init_from, *flags)


def test_a_tokenizer_of_the_configs_file_gives_way_to_the_checkpoints_and_that_is_said(made):
    task = prepared(made)
    assert task.inputs.text.tokenizer.sha256 == TOKENIZER.sha256
    assert task.model_config.vocabulary_size == 272  # the checkpoint's, with a few ids beyond the tokenizer's 259
    (line,) = [line for line in start.pretrained_parameters(task)[1] if line.startswith("tokenizer")]
    assert line == (
        "tokenizer: the checkpoint's bytes; inputs.tokens.tokenizer.kind = bpe, "
        "inputs.tokens.tokenizer.vocabulary_size = 300 of the config has no effect"
    )


def test_settings_are_compared_with_what_the_tokenizer_does():
    lowered = ByteTokenizer(sentinels=2, lowercase=True)
    same = Tokenizer(kind="bytes", sentinels=2, lowercase=True, masking=False, special_in_text=False)
    names = ("kind", "sentinels", "lowercase", "masking", "special_in_text")
    assert differing(same, names, lowered) == {}
    assert differing(Tokenizer(lowercase=False), ["kind", "lowercase"], lowered) == {"lowercase": True}
    assert differing(Tokenizer(), ["lowercase"], lowered) == {}  # none: as the tokenizer has it


def test_a_published_file_is_the_checkpoints_where_it_makes_the_same_tokenizer(tmp_path):
    made = open_tokenizer(Tokenizer(kind="bpe", vocabulary_size=262), ["hello hello"])
    made.save(tmp_path)
    stated = Tokenizer(kind="file", file=str(tmp_path))
    assert differing(stated, ["kind", "file"], made) == {}
    other = open_tokenizer(Tokenizer(kind="bpe", vocabulary_size=261), ["hello hello"])
    assert differing(stated, ["kind", "file"], other) == {"kind": "bpe", "file": "its own"}
    assert differing(stated, ["file"], other) == {"file": "its own"}


def test_a_folder_of_weights_without_an_optimizers_state_is_no_run_to_resume(made, tmp_path):
    store = Store(tmp_path / "mean" / "checkpoints")
    content = Store(made / "gpt" / "checkpoints").description(3)
    store.save(3, {"params": {"a": 0.0}, "step": 3, "updates": 3, "skipped": 0}, content, {})
    store.close()
    with pytest.raises(UserError, match=r"workdir = .*mean: holds weights without an optimizer's state, as `aver"):
        start.check(SimpleNamespace(), store, 3)
    with pytest.raises(
        UserError, match=r"mean: holds weights and no config.json, as `convert` .* --config.init_from=/"
    ):
        lock.check_usable(tmp_path / "mean")
    with pytest.raises(UserError, match=r"workdir = .*/run: lies among the checkpoints of the run .*mean; name an"):
        lock.check_usable(tmp_path / "mean" / "checkpoints" / "run")


def test_another_tokenizer_file_is_not_taken_for_other_data(made):
    store = Store(made / "gpt" / "checkpoints")
    data = SimpleNamespace(name="text:x")
    values = {"inputs": {"tokens": {"tokenizer": {"kind": "file", "file": "vocab.txt"}}}}
    task = SimpleNamespace(
        resolved=SimpleNamespace(experiment=SimpleNamespace(data=data), values=values),
        inputs=SimpleNamespace(processors={"tokens": SimpleNamespace(tokenizer=SimpleNamespace(sha256="ab" * 32))}),
        model_config=None,
        info=SimpleNamespace(fingerprint="other"),
    )
    with pytest.raises(
        UserError, match=r"inputs.tokens.tokenizer.file = vocab.txt: the tokenizer has changed .*, now ababab"
    ):
        start.check(task, store, 3)
    values["inputs"]["tokens"]["tokenizer"]["kind"] = "bpe"  # one that is made of the text: the text is another
    with pytest.raises(UserError, match=r"data.name = text:x: the data have changed since"):
        start.check(task, store, 3)


def test_rows_longer_than_the_context_are_refused_wherever_they_are_made(made):
    task = prepared(made)
    inputs = task.inputs.evaluating(SimpleNamespace(inputs={"tokens": {"length": 65}}))
    text = inputs.text.text
    assert (text.length, text.source_length, text.chat) == (65, 48, False)  # of prompts and completions
    source = inputs.source(task.resolved.experiment.data)
    with pytest.raises(UserError, match=r"inputs.tokens.length = 65: is more than model.context_length = 64"):
        inputs.rows(source, task.resolved.experiment.data, task.model_config, train=False)


def test_a_sentence_encoder_is_fine_tuned_to_classes_by_its_embedding(tmp_path):
    lines = [{"text": f"a cat {n}", "label": "ab"[n % 2]} for n in range(20)]
    (tmp_path / "mails.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    published = Path(__file__).parents[1] / "goldens" / "weights" / "sentences"
    flags = [f"init_from={published}", f"data.name=jsonl:{tmp_path}/mails.jsonl", "inputs.tokens.length=12"]
    resolved = resolve("bert/classify", overrides=flags)
    assert resolved.notes[0] == "init_from brings the model's sizes: model.variant = tiny left out"
    assert resolve(resolved.values).experiment.model.variant == ""  # as a run is resumed
    task = setup.prepare(resolved, setup.mesh_of(resolved.experiment))
    assert (task.model_config.head_input, task.model_config.num_classes) == ("mean", 2)
    assert not any(path.startswith("pooler") for path in task.state["params"])
    report = start.pretrained_parameters(task)[1]
    assert "  new      head/kernel: for classes in place of none, new, zero-initialised" in report
    assert "  dropped  pooler/kernel: not in this model" in report
    for name, more in (("bert/classify", ["model.variant=mini"]), ("bert/classify:mini", [])):
        wrong = resolve(name, overrides=[*flags, *more])
        with pytest.raises(UserError, match=r"model.variant = mini: init_from has no variant; leave"):
            setup.prepare(wrong, setup.mesh_of(wrong.experiment))
