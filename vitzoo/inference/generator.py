"""A language model held ready to write: loaded once, compiled once for each shape."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import Refused
from vitzoo.inference.decoding import Texts, begin_targets, begin_texts, continue_texts, filled
from vitzoo.inference.sampling import Sampling
from vitzoo.nn import state
from vitzoo.parallel.mesh import devices
from vitzoo.weights.load import TextInfo, load

MULTIPLE = 32  # prompts are filled up to a multiple of this many tokens
CHUNK = 16  # tokens between two looks at what has been written

Wrote = Callable[[int, str], None]
"""Called with a prompt's index and the text that has been added to its answer."""


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

    Raises:
        Refused: there is no such checkpoint, it is damaged, or its model doesn't write.
    """

    def __init__(self, checkpoint: str | Path, *, weights: str = "auto", platform: str = ""):
        self.device = devices(platform)[0]
        with jax.default_device(self.device):
            model, info = load(str(checkpoint), weights)
        if not isinstance(info, TextInfo) or not hasattr(model, "extend"):
            raise Refused("checkpoint", checkpoint, "holds no model that writes: a gpt, t5 or transformer")
        self.info, self.config = info, model.config
        self.encodes = hasattr(model, "encode")
        self.context: int | None = getattr(model.config, "context_length", None)
        graph, params = state.split(model)
        self._params = jax.device_put(params, self.device)
        self._begin = jax.jit(partial(begin_texts, graph), static_argnames=("room",))
        self._begin_targets = jax.jit(partial(begin_targets, graph), static_argnames=("room", "start"))
        self._continue = jax.jit(partial(continue_texts, graph), static_argnames=("how", "ends"), donate_argnums=1)

    def __call__(
        self,
        prompts: Sequence[str],
        *,
        max_new_tokens: int = 128,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
        seed: int = 0,
        wrote: Wrote | None = None,
        **settings: Any,
    ) -> list[Answer]:
        """Continues prompts, or answers them where the model is an encoder-decoder.

        Args:
            prompts: texts; all are written in one batch.
            max_new_tokens: most tokens added to each.
            sampling: how they are drawn; or as keywords, `temperature=0.8, top_k=50`.
            stop: texts at which an answer ends; they don't belong to it.
            seed: of the draws. A prompt's answer depends on the seed, its own place among the prompts and itself.
            wrote: called as text is added.

        Returns:
            An answer for each prompt.

        Raises:
            Refused: no prompt, an empty one, or one that fills the context.
        """
        how = dataclasses.replace(sampling or Sampling(), **settings)
        if max_new_tokens < 1:
            raise Refused("max_new_tokens", max_new_tokens, "must be at least 1")
        texts, first, limit = self._started(prompts, max_new_tokens)
        answers = _Answers(self.info, list(prompts), first, stop, wrote)
        end = self.info.tokenizer.end_id
        ends = () if end is None else (end,)
        low_bits = np.uint32(seed % 2**32)
        while not answers.finished:
            texts = self._continue(self._params, texts, low_bits, np.int32(CHUNK), how=how, ends=ends)
            stopped = answers.look(np.asarray(texts.tokens), np.asarray(texts.lengths), limit)
            texts = texts._replace(done=texts.done | jnp.asarray(stopped))
        return answers.all(self.context)

    def _started(self, prompts: Sequence[str], new: int) -> tuple[Texts, np.ndarray, np.ndarray]:
        """Texts under way, where the answers begin, and where they must end: int [batch] each."""
        if not prompts:
            raise Refused("prompt", None, "there is none")
        ids = [self._encoded(prompt) for prompt in prompts]
        numbers = np.arange(len(prompts), dtype=np.int32)
        if self.encodes:
            sources, lengths = filled(ids, MULTIPLE, 2**30)
            segments = (np.arange(sources.shape[1]) < lengths[:, None]).astype(np.int32)
            start, room = int(self.config.start_id), _rounded(new + 1)
            texts = self._begin_targets(self._params, sources, segments, numbers, room=room, start=start)
            return texts, np.ones(len(prompts), np.int32), np.full(len(prompts), new + 1)
        most = 2**30 if self.context is None else self.context
        longest = max(len(one) for one in ids)
        if longest >= most:
            where = int(np.argmax([len(one) for one in ids]))
            message = f"has {longest} tokens, and the model takes {most} with the answer"
            raise Refused("prompt", repr(prompts[where][:40]), message)
        rows, lengths = filled(ids, MULTIPLE, most)
        room = min(_rounded(rows.shape[1] + new), most)
        texts = self._begin(self._params, rows, lengths, numbers, room=room)
        return texts, lengths, np.minimum(lengths + new, most)

    def _encoded(self, prompt: str) -> np.ndarray:
        tokenizer, text = self.info.tokenizer, self.info.text
        ids = tokenizer.encode(text.prefix + prompt)
        if self.encodes and tokenizer.end_id is not None:
            ids = np.append(ids, tokenizer.end_id)
        if not len(ids):
            first = tokenizer.start_id if tokenizer.start_id is not None else tokenizer.end_id
            if first is None:
                raise Refused("prompt", "''", "is empty, and the tokenizer has no token that a text begins with")
            ids = np.array([first])
        return ids.astype(np.int32)


def _rounded(tokens: int) -> int:
    return -(-tokens // MULTIPLE) * MULTIPLE


class _Answers:
    """What has been written so far, looked at a chunk at a time."""

    def __init__(self, info: TextInfo, prompts: list[str], first: np.ndarray, stop: Sequence[str], wrote: Wrote | None):
        self.tokenizer, self.prompts, self.first = info.tokenizer, prompts, first
        self.stop, self.wrote = [one for one in stop if one], wrote
        self.answers: list[Answer | None] = [None] * len(prompts)
        self.shown = [""] * len(prompts)

    @property
    def finished(self) -> bool:
        return all(answer is not None for answer in self.answers)

    def look(self, tokens: np.ndarray, lengths: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Takes in what was added; bool [batch], which rows need no more."""
        for row, answer in enumerate(self.answers):
            if answer is None:
                written = tokens[row, self.first[row] : min(int(lengths[row]), int(limit[row]))]
                self.answers[row] = self._answer(row, written, full=len(written) >= limit[row] - self.first[row])
        return np.array([answer is not None for answer in self.answers])

    def _answer(self, row: int, ids: np.ndarray, full: bool) -> Answer | None:
        end = self.tokenizer.end_id
        ended = end is not None and len(ids) > 0 and ids[-1] == end
        text = self.tokenizer.decode(ids, skip_specials=True)
        cuts = [place for stop in self.stop if (place := text.find(stop)) >= 0]
        text = text[: min(cuts)] if cuts else text
        over = bool(cuts) or ended or full
        self._show(row, text, over)
        reason = "stop" if cuts else "end" if ended else "length"
        return Answer(self.prompts[row], text, tuple(int(id) for id in ids), reason) if over else None

    def _show(self, row: int, text: str, over: bool) -> None:
        """Tells what is new. The last characters wait: a stop string, or the rest of a character, may be under way."""
        held = 0 if over else max([len(stop) - 1 for stop in self.stop], default=0)
        ready = text[: len(text) - held]
        while not over and ready.endswith("\N{REPLACEMENT CHARACTER}"):
            ready = ready[:-1]
        if self.wrote and len(ready) > len(self.shown[row]):
            self.wrote(row, ready[len(self.shown[row]) :])
            self.shown[row] = ready

    def all(self, context: int | None) -> list[Answer]:
        """The answers; those that the context cut off say so."""
        found = []
        for answer, first in zip(self.answers, self.first, strict=True):
            assert answer is not None
            cut = context is not None and answer.reason == "length" and first + len(answer.ids) >= context
            found.append(dataclasses.replace(answer, reason="context") if cut else answer)
        return found
