"""Writing with a language model."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO, TypedDict

from vitzoo.argument_types import checked
from vitzoo.data.text.answers import conversation
from vitzoo.data.text.lines import check_whole
from vitzoo.decoding.generate import how_of
from vitzoo.errors import UserError
from vitzoo.inference.generator import Answer, Encoded, Generator, Prompt, WritingSetting, check_prompts
from vitzoo.outputs import checked_file, write_whole
from vitzoo.overwriting import Reads
from vitzoo.weights.info import Info


class GeneratedText(TypedDict):
    """A prompt as the model was given it, what follows it, of how many tokens, and why it ends."""

    prompt: str
    text: str
    tokens: int
    reason: str


Turns = Sequence[Mapping[str, str]]
"""A conversation: {"role", "content"} each."""


@checked(max_new_tokens=1, seed=0)
def generate(
    checkpoint: str | Path,
    prompts: str | Sequence[str | Turns],
    *,
    chat: bool = False,
    max_new_tokens: int = 128,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    weights: str = "auto",
    platform: str = "",
    special_in_text: bool = False,
    output: str | Path | None = None,
    out: TextIO | None = None,
    log: TextIO | None = None,
    **settings: WritingSetting,
) -> list[GeneratedText]:
    """Continues prompts with a GPT, or answers them with an encoder-decoder.

        import vitzoo
        vitzoo.generate("runs/gpt", "def ", temperature=0.8)[0]["text"]
        vitzoo.generate("runs/t5", ["a source", "another"], num_beams=4)

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        prompts: one or several, written in one batch. One may be a conversation, a list of {"role", "content"}.
        chat: each prompt is what a user says, and the answer the other's turn, as in the training on `messages`;
            refused of a model that was trained on prompts and completions.
        max_new_tokens: most tokens added to each.
        stop: one or several texts at which an answer ends.
        seed: of the draws.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        special_in_text: the names of special tokens in a prompt mean them (`<extra_id_0>` a T5's sentinel); otherwise
            they are text, unless the tokenizer was made to find them.
        output: a JSON lines file to write, what is returned, a line each.
        out: where a single prompt's answer is written as it comes; nowhere by default.
        log: where it is told which weights write; nowhere by default.
        settings: of drawing, `temperature` (1, of encoder-decoders 0: always the most probable), `top_k` (0: all),
            `top_p` (1: all), `repetition_penalty` (1: none); or of beam search, `num_beams` (above 1), `length_penalty`
            (1; -5 to 5), `length_normalisation` (`power`, `gnmt`), `early_stopping` (False, True, `never`): see
            `decoding.beams`.

    Returns:
        For each prompt `{"prompt", "text", "tokens", "reason"}`: the prompt as the model was given it, what follows
        it, of how many tokens, and why it ends: `end` of text, `stop`, `length` or `context`.

    Raises:
        UserError: no such checkpoint, a model that doesn't write, or a prompt or setting that doesn't fit.
    """
    how_of(settings)  # what is refused is refused before anything is loaded
    file = None if output is None else checked_file("output", output, (".jsonl",), Reads(weights=[checkpoint]))
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    stop = [stop] if isinstance(stop, str) else list(stop)
    if "" in stop:
        raise UserError("stop", "''", "an empty text is everywhere")
    check_prompts(prompts)
    check_whole("stop", *stop)
    generator = Generator(checkpoint, weights=weights, platform=platform, special_in_text=special_in_text)
    if log is not None:
        info = generator.info
        print(f"loads    {info.checkpoint}: step {info.step}, weights {info.weights}", file=log, flush=True)
    texts = [_prompt(prompt, chat, generator.info) for prompt in prompts]
    for note in generator.unknown(texts) if log is not None else ():
        print(f"warning: {note}", file=log, flush=True)
    live = out is not None and len(texts) == 1
    if out is not None and live and not generator.encodes and isinstance(texts[0], str):
        generator.encoded(texts)  # what is refused is refused before anything is shown
        print(texts[0], end="", file=out, flush=True)
    wrote = (lambda _, text: print(text, end="", file=out, flush=True)) if live else None
    how = how_of(settings, encodes=generator.encodes)
    answers = generator(texts, max_new_tokens=max_new_tokens, how=how, stop=stop, seed=seed, wrote=wrote)
    if out is not None:
        print(file=out) if live else say(answers, generator.encodes, out)
    rows: list[GeneratedText] = [
        {"prompt": one.prompt, "text": one.text, "tokens": len(one.ids), "reason": one.reason} for one in answers
    ]
    if file is not None:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_whole(file, lambda partial: partial.write_text(lines, encoding="utf-8"))
    return rows


def _prompt(prompt: str | Turns, chat: bool, info: Info) -> Prompt:
    """A prompt as the model is given it."""
    if isinstance(prompt, str) and not chat:
        return prompt
    if info.text.chat is False:
        problem = "the model was trained on prompts and completions, not on conversations: a prompt is given as it is"
        raise UserError("chat", None, f"{problem}, without --chat")
    turns = [{"role": "user", "text": prompt}] if isinstance(prompt, str) else prompt
    return Encoded(*conversation(turns, info.text, info.tokenizer))


def say(answers: list[Answer], encodes: bool, out: TextIO | None = None) -> None:
    """Prints each prompt with what follows it; of an encoder-decoder, what it answers."""
    for number, answer in enumerate(answers):
        print("" if number == 0 else "\n---", file=out or sys.stdout)
        print(f"{answer.prompt}\n→ {answer.text}" if encodes else answer.prompt + answer.text, file=out or sys.stdout)
