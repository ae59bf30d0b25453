"""Beam search: the most probable whole texts, as far as a few hypotheses at a time find them.

The rules are those of transformers' `generate`. At each step the 2 · `num_beams` best continuations of a row's running
hypotheses are looked at. Of the best `num_beams`, those that end (with the end token, or as long as asked for) are
finished, and the `num_beams` finished ones of the best score are kept; of the others the best `num_beams` run on. A
finished hypothesis scores

    sum of log p / n ** length_penalty                 length_normalisation="power"
    sum of log p / ((5 + n) / 6) ** length_penalty     length_normalisation="gnmt"

where the sum and n are of its new tokens, the end token included; a prompt and a start token don't count. The second is
that of Wu et al. 2016 (https://arxiv.org/abs/1609.08144, section 7) and of the Transformer of 2017 (4 beams, 0.6).
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from vitzoo.decoding.start import Started, Writer, is_end, next_logits, permitted
from vitzoo.nn.stack import KVCache
from vitzoo.schema import setting

LARGEST_PENALTY = 5.0
"""Of a million tokens, 2**20, the divisor is then 2**100 or 2**-100 at most, and a score still a finite float32 above 0
for sums of log p from 1e-7 to 1e8. Beyond, every text would score 0 or minus infinity, and none could be chosen.
"""


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """How the most probable text is looked for."""

    num_beams: int = setting(4, "hypotheses that a step goes on with", minimum=2)
    length_penalty: float = setting(
        1.0,
        "power of the length by which scores are divided: above 0 favours long texts",
        minimum=-LARGEST_PENALTY,
        maximum=LARGEST_PENALTY,
    )
    length_normalisation: str = setting(
        "power", "n ** penalty; gnmt: ((5 + n) / 6) ** penalty, of 2016 and 2017", choices=("power", "gnmt")
    )
    early_stopping: bool | Literal["never"] = setting(
        False,
        "when a search is over, num_beams texts being finished; true: at once; false: when the best that runs, were it "
        "to end now, would beat none of them; never: when it couldn't at any length",
    )

    def divisor(self, length: jax.Array) -> jax.Array:
        """By what the summed log-probability of `length` new tokens is divided."""
        counted = length.astype(jnp.float32)
        return ((5 + counted) / 6 if self.length_normalisation == "gnmt" else counted) ** self.length_penalty


class Finished(NamedTuple):
    """Texts that have ended, best first; those not yet found score minus infinity."""

    ids: jax.Array  # int32 [batch, beams, new tokens], 0 after a text's end
    lengths: jax.Array  # int32 [batch, beams]
    scores: jax.Array  # float32 [batch, beams]


class Search(NamedTuple):
    """A search under way."""

    written: jax.Array  # int32 [], new tokens so far
    open: jax.Array  # bool [batch], rows still searched
    ids: jax.Array  # int32 [batch, beams, new tokens], of the running hypotheses, best first
    sums: jax.Array  # float32 [batch, beams], of their log-probabilities
    logits: jax.Array  # float32 [batch, beams, vocabulary]
    cache: KVCache  # of batch · beams rows
    finished: Finished


def search(
    model: Writer,
    started: Started,
    most: jax.Array,
    new: int,
    how: BeamSearch,
    ends: tuple[int, ...] = (),
    allowed: jax.Array | None = None,
) -> Finished:
    """The best texts of each row, found by itself: neither the batch nor its other rows matter.

    Args:
        model: as in `start`.
        started: what it has read.
        most: int32 [batch], new tokens of each row at most; from 1 to `new`.
        new: the largest of them.
        how: is searched.
        ends: ids that end a text; they belong to it.
        allowed: bool [vocabulary], ids that may be written; None is all.
    """
    beams, batch, room = how.num_beams, len(started.lengths), started.cache.past.key.shape[2]
    first = jnp.arange(beams) == 0  # all hypotheses are one to begin with
    nothing = jnp.zeros((batch, beams, new), jnp.int32)
    never = jnp.full((batch, beams), -jnp.inf)
    segments = started.source_segments
    segments = None if segments is None else jnp.repeat(segments, beams, 0)
    now = Search(
        written=jnp.zeros((), jnp.int32),
        open=jnp.ones(batch, bool),
        ids=nothing,
        sums=jnp.where(first, 0.0, never),
        logits=jnp.repeat(started.logits[:, None], beams, 1),
        cache=jax.tree.map(lambda kept: jnp.repeat(kept, beams, 1), started.cache),
        finished=Finished(nothing, jnp.zeros((batch, beams), jnp.int32), never),
    )

    def step(now: Search) -> Search:
        found = _continuations(now, how, ends, allowed, most)
        finished = _merged(now, found, how)
        sums, which = lax.top_k(jnp.where(found.ended, -jnp.inf, found.sums), beams)
        ids, parents = _take(found.ids, which), _take(found.parents, which)
        # a row that was over before others has no place left
        places = jnp.repeat(jnp.minimum(started.lengths + now.written, room - 1), beams)
        past = jax.tree.map(lambda kept: _of_parents(kept, parents), now.cache.past)
        last = lax.dynamic_index_in_dim(ids, now.written, 2, keepdims=False)
        logits, cache = next_logits(model, last.reshape(-1), places, now.cache._replace(past=past), segments)
        count = now.written + 1
        still = now.open & _can_improve(sums[:, 0], finished, count, most, how)
        return Search(count, still, ids, sums, logits.reshape(now.logits.shape), cache, finished)

    return lax.while_loop(lambda now: now.open.any(), step, now).finished


class _Found(NamedTuple):
    """The best continuations of each row's hypotheses by one token, best first: [batch, continuations]."""

    ids: jax.Array  # [batch, continuations, new tokens]
    sums: jax.Array
    parents: jax.Array  # which hypothesis each goes on with
    ended: jax.Array


def _continuations(
    now: Search, how: BeamSearch, ends: tuple[int, ...], allowed: jax.Array | None, most: jax.Array
) -> _Found:
    vocabulary = now.logits.shape[-1]
    log_probability = jax.nn.log_softmax(permitted(now.logits, allowed))
    sums = (now.sums[..., None] + log_probability).reshape(len(now.open), -1)
    # so many that `num_beams` are left to run on, though every hypothesis ended in each of the ways there are
    looked_at = min(max(2, 1 + len(ends)) * how.num_beams, sums.shape[1])
    sums, index = lax.top_k(sums, looked_at)
    parents, last = index // vocabulary, (index % vocabulary).astype(jnp.int32)
    ids = lax.dynamic_update_index_in_dim(_take(now.ids, parents), last, now.written, 2)
    ended = is_end(last, ends) | (now.written + 1 >= most)[:, None]
    return _Found(ids, sums, parents, ended)


def _merged(now: Search, found: _Found, how: BeamSearch) -> Finished:
    """The best of those finished before and now. A row that isn't open takes no more."""
    length = now.written + 1
    counts = found.ended & (jnp.arange(found.sums.shape[1]) < how.num_beams) & now.open[:, None]
    scores = jnp.where(counts, found.sums / how.divisor(length), -jnp.inf)
    lengths = jnp.broadcast_to(length, scores.shape)
    both = [jnp.concatenate(pair, 1) for pair in zip(now.finished, (found.ids, lengths, scores), strict=True)]
    scores, which = lax.top_k(both[2], how.num_beams)
    return Finished(_take(both[0], which), _take(both[1], which), scores)


def _can_improve(best: jax.Array, finished: Finished, count: jax.Array, most: jax.Array, how: BeamSearch) -> jax.Array:
    """Whether a row's search goes on, bool [batch].

    Args:
        best: float32 [batch], the sum of the best running hypothesis.
        finished: so far.
        count: tokens of those that run.
        most: they can have.
        how: is searched.
    """
    worst = finished.scores[:, -1]
    if how.early_stopping is True:
        return (count < most) & (worst == -jnp.inf)
    longest = most if how.early_stopping == "never" and how.length_penalty > 0 else count
    return (count < most) & (best / how.divisor(longest) > worst)


def _take(values: jax.Array, which: jax.Array) -> jax.Array:
    """Values [batch, several, ...] at the places [batch, fewer] of their second axis."""
    return jnp.take_along_axis(values, which.reshape(*which.shape, *(1,) * (values.ndim - 2)), 1)


def _of_parents(kept: jax.Array, parents: jax.Array) -> jax.Array:
    """A cache [depth, batch · beams, ...] whose rows go on with those of their parents, [batch, beams]."""
    apart = kept.reshape(len(kept), *parents.shape, *kept.shape[2:])
    return jax.vmap(_take, (0, None))(apart, parents).reshape(kept.shape)
