"""Writing with a language model."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from vitzoo.errors import Refused
from vitzoo.inference.generator import Answer, Generator
from vitzoo.inference.sampling import Sampling
from vitzoo.schema import build


def generate(
    checkpoint: str | Path,
    prompts: str | Sequence[str],
    *,
    max_new_tokens: int = 128,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    weights: str = "auto",
    platform: str = "",
    out: TextIO | None = None,
    **sampling: Any,
) -> list[dict[str, Any]]:
    """Continues prompts with a GPT, or answers them with an encoder-decoder.

        import vitzoo
        vitzoo.generate("runs/gpt", "def ", temperature=0.8)[0]["text"]

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        prompts: one or several, written in one batch.
        max_new_tokens: most tokens added to each.
        stop: one or several texts at which an answer ends.
        seed: of the draws.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        out: where a single prompt's answer is written as it comes; nowhere by default.
        sampling: `temperature` (1; 0 is always the most probable), `top_k` (0: all), `top_p` (1: all),
            `repetition_penalty` (1: none).

    Returns:
        For each prompt `{"prompt", "text", "tokens", "reason"}`: what follows it, of how many tokens, and why it ends:
        `end` of text, `stop`, `length` or `context`.

    Raises:
        Refused: no such checkpoint, a model that doesn't write, or a prompt or setting that doesn't fit.
    """
    how = build(Sampling, sampling, "")
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    stop = [stop] if isinstance(stop, str) else list(stop)
    if "" in stop:
        raise Refused("stop", "''", "an empty text is everywhere")
    generator = Generator(checkpoint, weights=weights, platform=platform)
    live = out is not None and len(prompts) == 1
    if out is not None and live and not generator.encodes:
        print(prompts[0], end="", file=out, flush=True)
    wrote = (lambda _, text: print(text, end="", file=out, flush=True)) if live else None
    answers = generator(prompts, max_new_tokens=max_new_tokens, sampling=how, stop=stop, seed=seed, wrote=wrote)
    if out is not None:
        print(file=out) if live else say(answers, generator.encodes, out)
    return [{"prompt": one.prompt, "text": one.text, "tokens": len(one.ids), "reason": one.reason} for one in answers]


def say(answers: list[Answer], encodes: bool, out: TextIO | None = None) -> None:
    """Prints each prompt with what follows it; of an encoder-decoder, what it answers."""
    for number, answer in enumerate(answers):
        print("" if number == 0 else "\n---", file=out or sys.stdout)
        print(f"{answer.prompt}\n→ {answer.text}" if encodes else answer.prompt + answer.text, file=out or sys.stdout)
