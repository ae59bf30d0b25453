"""A language model held ready to write: loaded once, compiled once for each shape."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.text.lines import check_whole
from vitzoo.data.text.token_array import unknown_note
from vitzoo.decoding.beams import BeamSearch
from vitzoo.decoding.generate import How, Written, context_of, how_of, write
from vitzoo.decoding.sampling import SampleState, Sampling, begin_texts, continue_texts
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.parallel.mesh import devices
from vitzoo.weights.info import Info
from vitzoo.weights.load import load

MULTIPLE = 32  # prompts are filled up to a multiple of this many tokens
CHUNK = 16  # tokens between two looks at what has been written

Wrote = Callable[[int, str], None]
"""Called with a prompt's index and the text that has been added to its answer."""


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A prompt whose ids are known: of a conversation, in which end tokens stand."""

    text: str
    ids: np.ndarray


Prompt = str | Encoded

WritingSetting = float | bool | str | None
"""A setting of sampling or of beam search; None is as if it weren't given."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was written after a prompt.

    Attributes:
        prompt: the prompt.
        text: what follows it, without the end token and without the stop string.
        ids: the tokens written, the end token included.
        reason: `end` (the end token), `stop` (a stop string), `length` (as many tokens as asked for) or `context`
            (the model takes no more).
    """

    prompt: str
    text: str
    ids: tuple[int, ...]
    reason: str


class Generator:
    """A checkpoint ready to write.

        generator = vitzoo.inference.Generator("runs/gpt")
        generator(["def "], temperature=0.8)[0].text

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        special_in_text: the names of special tokens in a prompt mean them (`<extra_id_0>` a T5's sentinel); otherwise
            they are text like any other, unless the tokenizer was made to find them.

    Raises:
        UserError: there is no such checkpoint, it is damaged, or its model doesn't write.
    """

    def __init__(
        self, checkpoint: str | Path, *, weights: str = "auto", platform: str = "", special_in_text: bool = False
    ):
        self.device = devices(platform)[0]
        with jax.default_device(self.device):
            model, info = load(str(checkpoint), weights)
        if info.processor.tokenizer is None or not hasattr(model, "extend"):
            raise UserError("checkpoint", checkpoint, "holds no model that writes: a gpt, t5 or transformer")
        if special_in_text:
            info = info.with_tokenizer(info.tokenizer.with_special_in_text().ending_with(info.tokenizer.ends))
        self.info = info
        self.encodes = hasattr(model, "encode")
        self.context = context_of(model)
        graph, params = state.split(model)
        with jax.default_device(self.device):
            self._params = jax.device_put(params, self.device)
            allowed = jnp.asarray(info.tokenizer.writable(model.config.vocabulary_size))
        self._ends = info.tokenizer.end_ids

        def begin(params: Any, prompts: Any, lengths: Any, seed: Any, room: int) -> SampleState:
            return begin_texts(state.merge(graph, params), prompts, lengths, seed, room)

        def go_on(params: Any, texts: SampleState, steps: Any, how: Sampling, ends: tuple[int, ...]) -> SampleState:
            return continue_texts(state.merge(graph, params), texts, steps, how, ends, allowed)

        def search(params: Any, prompts: Any, lengths: Any, **how: Any) -> Written:
            return write(state.merge(graph, params), prompts, lengths, allowed=allowed, **how)

        self._begin = jax.jit(begin, static_argnames=("room",))
        self._continue = jax.jit(go_on, static_argnames=("how", "ends"), donate_argnums=1)
        self._search = jax.jit(search, static_argnames=("new", "how", "ends"))

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int = 128,
        how: How | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
        wrote: Wrote | None = None,
        **settings: WritingSetting,
    ) -> list[Answer]:
        """Continues prompts, or answers them where the model is an encoder-decoder.

        Padding, and ids beyond the tokenizer's, are never written.

        Args:
            prompts: texts; all are written in one batch.
            max_new_tokens: most tokens added to each.
            how: they are chosen; or as keywords, `temperature=0.8, top_k=50`, or `num_beams=4`. By default a decoder
                draws at temperature 1, and an encoder-decoder writes the most probable.
            stop: texts at which an answer ends; they don't belong to it. What beam search finds is cut there.
            seed: of the draws. A prompt's answer depends on the seed, itself, and how many equal prompts come before.
            wrote: called as text is added; of beam search, with the whole.

        Returns:
            An answer for each prompt.

        Raises:
            UserError: no prompt, one that fills the context, or settings that don't fit.
        """
        how = how or how_of(settings, encodes=self.encodes)
        if max_new_tokens < 1:
            raise UserError("max_new_tokens", max_new_tokens, "must be at least 1")
        ids = self.encoded(prompts)
        rows, lengths = filled(ids, MULTIPLE, 2**30 if self.context is None else self.context)
        most = np.full(len(rows), max_new_tokens)
        if self.context is not None:
            most = np.minimum(most, self.context - lengths)
        shown = [prompt if isinstance(prompt, str) else prompt.text for prompt in prompts]
        answers = _Answers(self.info, shown, [] if self.encodes else ids, stop, wrote)
        if isinstance(how, BeamSearch):
            found = self._search(self._params, rows, lengths, new=max_new_tokens, how=how, ends=self._ends)
            answers.look(list(np.asarray(found.ids)), np.asarray(found.lengths), np.asarray(found.lengths))
        else:
            self._draw(answers, rows, lengths, most, how, seed)
        return answers.all(most < max_new_tokens)

    def _draw(
        self, answers: "_Answers", rows: np.ndarray, lengths: np.ndarray, most: np.ndarray, how: Sampling, seed: int
    ) -> None:
        """Writes a chunk of tokens at a time, and looks at it, until no row needs more."""
        first = np.ones_like(lengths) if self.encodes else lengths
        room = self._room(rows, int(most.max()))
        texts = self._begin(self._params, rows, lengths, np.uint32(seed % 2**32), room=room)
        while not answers.finished:
            texts = self._continue(self._params, texts, np.int32(CHUNK), how=how, ends=self._ends)
            written = [row[begin:] for row, begin in zip(np.asarray(texts.tokens), first, strict=True)]
            stopped = answers.look(written, np.asarray(texts.lengths) - first, most)
            texts = texts._replace(done=texts.done | jnp.asarray(stopped))

    def encoded(self, prompts: Sequence[Prompt]) -> list[np.ndarray]:
        """The prompts' ids, int32 [tokens] each.

        Raises:
            UserError: no prompt, or one that fills the context.
        """
        check_prompts(prompts)
        ids = [self._encoded(prompt) for prompt in prompts]
        most = 2**30 if self.context is None else self.context
        longest = max(len(one) for one in ids)
        if longest >= most:
            where = int(np.argmax([len(one) for one in ids]))
            message = f"has {longest} tokens, and the model takes {most} with the answer"
            prompt = prompts[where]
            raise UserError("prompt", repr((prompt if isinstance(prompt, str) else prompt.text)[:40]), message)
        return ids

    def unknown(self, prompts: Sequence[Prompt]) -> tuple[str, ...]:
        """A note where tokens of prompts stand for text that the tokenizer doesn't know; UserError as `encoded`."""
        ids = np.concatenate(self.encoded(prompts))
        of = " of the prompt" if len(prompts) == 1 else " of the prompts"
        return unknown_note(int(np.count_nonzero(ids == self.info.tokenizer.unknown_id)), len(ids), of)

    def _room(self, rows: np.ndarray, new: int) -> int:
        """Places of a text, a multiple of `MULTIPLE` so that few shapes are compiled."""
        if self.encodes:
            return _rounded(new + 1)
        return min(_rounded(rows.shape[1] + new), 2**30 if self.context is None else self.context)

    def _encoded(self, prompt: Prompt) -> np.ndarray:
        if isinstance(prompt, Encoded):
            return prompt.ids.astype(np.int32)
        tokenizer, text = self.info.tokenizer, self.info.text
        ids = tokenizer.encode(text.prefix + prompt)
        if self.encodes and tokenizer.end_id is not None:
            ids = np.append(ids, tokenizer.end_id)
        if not self.encodes:
            ids = tokenizer.opened(ids)
        if not len(ids):
            ids = tokenizer.opening("prompt")
        return ids.astype(np.int32)


def check_prompts(prompts: Sequence[Prompt | Sequence[Mapping[str, str]]]) -> None:
    """Refuses no prompt, and one that no tokenizer takes."""
    if not prompts:
        raise UserError("prompt", None, "there is none")
    for prompt in prompts:
        turns = [] if isinstance(prompt, str | Encoded) else prompt
        if not isinstance(turns, list | tuple) or not all(isinstance(turn, Mapping) for turn in turns):
            message = f'is of the type {type(prompt).__name__}; must be text, or a list of {{"role", "content"}}'
            raise UserError("prompt", "None" if prompt is None else prompt, message)
    check_whole("prompt", *(prompt for prompt in prompts if isinstance(prompt, str)))


def filled(texts: Sequence[np.ndarray], multiple: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids in one array [batch, tokens], a multiple of `multiple` wide so that few shapes are compiled; their lengths.

    Args:
        texts: int32 ids of each.
        multiple: of the width.
        most: no wider than this.
    """
    lengths = np.array([len(ids) for ids in texts], np.int32)
    width = min(-(-max(int(lengths.max()), 1) // multiple) * multiple, most)
    rows = np.zeros((len(texts), width), np.int32)
    for row, ids in zip(rows, texts, strict=True):
        row[: len(ids)] = ids
    return rows, lengths


def _rounded(tokens: int) -> int:
    return -(-tokens // MULTIPLE) * MULTIPLE


class _Answers:
    """What has been written so far, looked at a chunk at a time."""

    def __init__(
        self, info: Info, prompts: list[str], given: Sequence[np.ndarray], stop: Sequence[str], wrote: Wrote | None
    ):
        self.tokenizer, self.prompts, self.given = info.tokenizer, prompts, given
        self.stop, self.wrote = [one for one in stop if one], wrote
        self.answers: list[Answer | None] = [None] * len(prompts)
        self.shown = [""] * len(prompts)

    @property
    def finished(self) -> bool:
        return all(answer is not None for answer in self.answers)

    def look(self, written: Sequence[np.ndarray], lengths: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Takes in what was added; bool [batch], which rows need no more.

        Args:
            written: of each row, the ids written, and anything after them.
            lengths: int [batch], how many there are.
            most: int [batch], how many there may be.
        """
        for row, answer in enumerate(self.answers):
            if answer is None:
                ids = written[row][: min(int(lengths[row]), int(most[row]))]
                self.answers[row] = self._answer(row, ids, full=len(ids) >= most[row])
        return np.array([answer is not None for answer in self.answers])

    def _answer(self, row: int, ids: np.ndarray, full: bool) -> Answer | None:
        ended = len(ids) > 0 and int(ids[-1]) in self.tokenizer.end_ids
        text = self._text(row, ids[:-1] if ended else ids)
        cuts = [place for stop in self.stop if (place := text.find(stop)) >= 0]
        text = text[: min(cuts)] if cuts else text
        over = bool(cuts) or ended or full
        self._show(row, text, over)
        reason = "stop" if cuts else "end" if ended else "length"
        return Answer(self.prompts[row], text, tuple(int(id) for id in ids), reason) if over else None

    def _text(self, row: int, ids: np.ndarray) -> str:
        """What was written, as it goes on from the prompt: pieces of words tell only together where a space stands."""
        alone = self.tokenizer.decode(ids, skip_specials=True)
        if not self.given:
            return alone
        before = self.tokenizer.decode(self.given[row], skip_specials=True)
        whole = self.tokenizer.decode(np.concatenate([self.given[row], ids]), skip_specials=True)
        return whole[len(before) :] if whole.startswith(before) else alone

    def _show(self, row: int, text: str, over: bool) -> None:
        """Tells what is new. The last characters wait: a stop string, or the rest of a character, may be under way."""
        held = 0 if over else max([len(stop) - 1 for stop in self.stop], default=0)
        ready = text[: len(text) - held]
        while not over and ready.endswith("\N{REPLACEMENT CHARACTER}"):
            ready = ready[:-1]
        if self.wrote and len(ready) > len(self.shown[row]):
            self.wrote(row, ready[len(self.shown[row]) :])
            self.shown[row] = ready

    def all(self, cut: np.ndarray) -> list[Answer]:
        """The answers; of rows that the context leaves fewer tokens (`cut`, bool [batch]), those it ends say so."""
        found = []
        for answer, short in zip(self.answers, cut, strict=True):
            assert answer is not None
            found.append(
                dataclasses.replace(answer, reason="context") if short and answer.reason == "length" else answer
            )
        return found
