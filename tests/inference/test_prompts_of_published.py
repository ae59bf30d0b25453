"""Prompts to published models: the start token that their tokenizer puts before a text, and names of special tokens in
it, which are text unless asked otherwise."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import processors

from vitzoo.cli import main
from vitzoo.data.text.prompts import Reader
from vitzoo.inference.generator import Generator
from vitzoo.weights.load import load
from vitzoo.weights.tokenizers import tokenizer_files

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
END = 279  # <|endoftext|> of the small vocabulary
A_B = [64, 220, 65]  # "a b"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """GPT-2 whose tokenizer puts `<|endoftext|>` before a text, as OPT's; by the file that says so."""
    folders = {
        name: tmp_path_factory.mktemp("opened") / name for name in ("tokenizer.json", "tokenizer_config.json", "no")
    }
    for name, folder in folders.items():
        shutil.copytree(GOLDENS / "gpt2", folder)
        if name == "tokenizer.json":
            tokenizer = load(str(folder))[1].tokenizer
            made = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_files(tokenizer)[name]))
            made.post_processor = processors.TemplateProcessing(
                single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", END)]
            )
            made.save(str(folder / name))
        elif name != "no":
            config = json.loads((folder / name).read_text())
            (folder / name).write_text(json.dumps({**config, "add_bos_token": True}))
    return folders


@pytest.mark.parametrize(("name", "before"), [("tokenizer.json", [END]), ("tokenizer_config.json", [END]), ("no", [])])
def test_a_start_token_that_the_tokenizer_puts_before_a_text_opens_a_prompt(name, before, opened):
    generator = Generator(str(opened[name]))
    assert generator.encoded(["a b"])[0].tolist() == [*before, *A_B]
    assert generator.encoded([""])[0].tolist() == [END]
    read = Reader(encodes=False, limit=8)("a b", generator.info.tokenizer)
    assert read.tolist() == [*before, *A_B]
    assert generator.info.tokenizer.encode("a b").tolist() == A_B


@pytest.mark.slow
def test_the_answer_is_that_to_the_tokens_with_their_start(opened, capsys):
    def answer(*flags):
        assert main(["generate", "--temperature", "0", "--max-new-tokens", "6", "--json", *flags]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])["answers"][0]["text"]

    with_start = answer("--checkpoint", str(opened["tokenizer.json"]), "--prompt", "a b")
    assert with_start == answer("--checkpoint", str(opened["tokenizer_config.json"]), "--prompt", "a b")
    asked = answer("--checkpoint", str(opened["no"]), "--special-in-text", "--prompt", "<|endoftext|>a b")
    assert with_start == asked != answer("--checkpoint", str(opened["no"]), "--prompt", "a b")


@pytest.mark.slow
def test_it_stays_when_the_model_is_converted_out_and_in(opened, tmp_path, capsys):
    assert main(["convert", str(opened["tokenizer.json"]), str(tmp_path / "run")]) == 0
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "out")]) == 0
    for folder in (tmp_path / "run", tmp_path / "out"):
        assert Generator(str(folder)).encoded(["a b"])[0].tolist() == [END, *A_B]


@pytest.mark.parametrize("golden", ["t5", "byt5"])
def test_a_sentinel_in_a_prompt_is_text_unless_asked_for(golden):
    plain, special = (Generator(str(GOLDENS / golden), special_in_text=asked) for asked in (False, True))
    tokenizer = plain.info.tokenizer
    text = "a <extra_id_0> b <extra_id_1>"
    sentinels = [tokenizer.sentinel(0), tokenizer.sentinel(1)]
    ids = plain.encoded([text])[0]
    assert not np.isin(sentinels, ids).any()
    assert ids.tolist() == [*tokenizer.encode(text).tolist(), tokenizer.end_id]
    found = special.encoded([text])[0].tolist()
    assert [id for id in found if id in sentinels] == sentinels
    assert found[-1] == tokenizer.end_id
    assert special.encoded(["a b"])[0].tolist() == plain.encoded(["a b"])[0].tolist()
