"""Ids in, ids out, in one call."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from vitzoo.decoding.beams import BeamSearch, search
from vitzoo.decoding.sampling import Sampling, begin_texts, continue_texts
from vitzoo.decoding.start import WithEncoder, Writer, start
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.schema import annotations, build, convert
from vitzoo.spelling import dotted, nearest
from vitzoo.strict_json import JSON

How = Sampling | BeamSearch
Numbers = npt.ArrayLike | jax.Array
"""An array, or what becomes one."""
GREEDY = Sampling(temperature=0.0)


class Written(NamedTuple):
    """What was written after each prompt, or in answer to each source."""

    ids: jax.Array  # int32 [batch, new tokens], 0 after a text's end
    lengths: jax.Array  # int32 [batch], how many of them there are, the end token included
    scores: jax.Array | None  # float32 [batch], of beam search


def how_of(settings: Mapping[str, JSON], prefix: str = "", encodes: bool = False) -> How:
    """Sampling, or beam search where `num_beams` is above 1. Settings that are None aren't given.

    Args:
        settings: by name.
        prefix: of their names in a refusal.
        encodes: whether they are for an encoder-decoder, which is asked for the most probable by default.

    Raises:
        UserError: an unknown setting, a value outside its limits, or one that the way of writing doesn't have.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    beams, draws = annotations(BeamSearch), annotations(Sampling)
    if unknown := [name for name in given if name not in beams and name not in draws]:
        hint = nearest(unknown[0], [*draws, *beams])
        raise UserError(dotted(prefix, unknown[0]), given[unknown[0]], f"no such setting; {hint}")
    beams_asked = convert(int, given.get("num_beams", 1), field := dotted(prefix, "num_beams"))
    if beams_asked < 1:
        raise UserError(field, beams_asked, "must be at least 1 (1 draws tokens, more are a beam search)")
    searched = beams_asked > 1
    if odd := [name for name in given if name not in (beams if searched else (*draws, "num_beams"))]:
        draws_none = f"acts where tokens are drawn, and beam search (num_beams = {given.get('num_beams')}) draws none"
        message = draws_none if searched else "acts with num_beams above 1 only"
        raise UserError(dotted(prefix, odd[0]), given[odd[0]], message)
    if searched:
        return build(BeamSearch, given, prefix)
    sampling = build(Sampling, {name: value for name, value in given.items() if name != "num_beams"}, prefix)
    return sampling.of_answers() if encodes else sampling


def write(
    model: Writer,
    tokens: jax.Array,
    lengths: jax.Array,
    *,
    new: int,
    how: How,
    ends: tuple[int, ...] = (),
    allowed: jax.Array | None = None,
    seed: jax.Array | int = 0,
) -> Written:
    """What `generate` does, to be compiled with what stands around it.

    Args:
        model: as in `decoding.start`.
        tokens: int32 [batch, tokens], prompts or sources filled up at the end.
        lengths: int32 [batch], tokens of each; at least one, and of a decoder fewer than its context.
        new: tokens written at most; a decoder's context may leave a row fewer.
        how: they are chosen.
        ends: ids that end a text.
        allowed: bool [vocabulary], ids that may be written; None is all.
        seed: of draws: a row's depend on it, on the prompt, and on how many equal prompts stand before it.
    """
    # what fills a row up may be no id at all, whose embedding isn't finite and would count though it is masked
    tokens = jnp.where(jnp.arange(tokens.shape[1]) < lengths[:, None], tokens, 0)
    room, most = _room(model, tokens, lengths, new)
    if isinstance(how, BeamSearch):
        found = search(model, start(model, tokens, lengths, room), most, new, how, ends, allowed)
        return Written(found.ids[:, 0], found.lengths[:, 0], found.scores[:, 0])
    before = begin_texts(model, tokens, lengths, seed, room)
    texts = continue_texts(model, before, new, how, ends, allowed)
    at = jnp.arange(new)
    ids = jnp.take_along_axis(texts.tokens, jnp.minimum(before.lengths[:, None] + at, room - 1), 1)
    lengths = texts.lengths - before.lengths
    return Written(jnp.where(at < lengths[:, None], ids, 0), lengths, None)


def _room(model: Writer, tokens: jax.Array, lengths: jax.Array, new: int) -> tuple[int, jax.Array]:
    """Places of a text with what is added, and how many tokens may be added to each: int32 [batch]."""
    most = jnp.full(len(tokens), new)
    if isinstance(model, WithEncoder):
        return 1 + new, most
    room, context = tokens.shape[1] + new, context_of(model)
    return (room, most) if context is None else (min(room, context), jnp.minimum(most, context - lengths))


def context_of(model: Writer) -> int | None:
    """Most tokens of a decoder's text; None where there is no such limit."""
    return None if isinstance(model, WithEncoder) else getattr(model.config, "context_length", None)


@functools.partial(jax.jit, static_argnames=("graph", "new", "how", "ends"))
def _compiled(graph, params, tokens, lengths, allowed, seed, *, new: int, how: How, ends: tuple[int, ...]) -> Written:
    return write(state.merge(graph, params), tokens, lengths, new=new, how=how, ends=ends, allowed=allowed, seed=seed)


def generate(
    model: Writer,
    tokens: Numbers,
    lengths: Numbers | None = None,
    *,
    max_new_tokens: int = 128,
    end_id: int | None = None,
    allowed: Numbers | None = None,
    seed: int = 0,
    **settings: JSON,
) -> Written:
    """Continues prompts with a decoder, or answers sources with an encoder-decoder; compiled once for each shape.

        ids, lengths, _ = model.generate(tokens, max_new_tokens=20, num_beams=4)

    Args:
        model: one that writes.
        tokens: int [batch, tokens], filled up at the end with anything.
        lengths: int [batch], tokens of each row; all of them by default.
        max_new_tokens: most tokens written for each row; a decoder's context may leave it fewer.
        end_id: the id that ends a text; it is the last one written.
        allowed: bool [vocabulary], ids that may be written, for instance without padding; all by default.
        seed: of the draws; a row's depend on it, on the row, and on how many equal rows stand before it.
        settings: of `Sampling` (`temperature=0.8`, `top_k`, `top_p`, `repetition_penalty`), or of `BeamSearch`
            (`num_beams=4`, `length_penalty`, `length_normalisation`, `early_stopping`).

    Raises:
        UserError: settings, shapes, lengths or ids that don't fit. Under a trace lengths and ids can't be looked at.
    """
    how = how_of(settings, encodes=isinstance(model, WithEncoder))
    if max_new_tokens < 1:
        raise UserError("max_new_tokens", max_new_tokens, "must be at least 1")
    tokens, lengths = _checked(model, tokens, lengths)
    graph, params = state.split(model)
    vocabulary = _vocabulary(model)
    if end_id is not None:
        end_id = convert(int, end_id, "end_id")
        _check_ids("end_id", np.array([end_id]), vocabulary)
    ends = () if end_id is None else (end_id,)
    if allowed is not None and vocabulary is not None and np.shape(allowed) != (vocabulary,):
        raise UserError("allowed", list(np.shape(allowed)), f"must be one for each of the {vocabulary:,} ids")
    allowed = None if allowed is None else jnp.asarray(allowed, bool)
    return _compiled(
        graph, params, tokens, lengths, allowed, np.uint32(seed % 2**32), new=max_new_tokens, how=how, ends=ends,
    )  # fmt: skip


def _checked(model: Writer, tokens: Numbers, lengths: Numbers | None) -> tuple[jax.Array, jax.Array]:
    field = "source" if isinstance(model, WithEncoder) else "tokens"  # as the models' own methods call them
    ids = _whole_numbers(field, tokens, 2, "[batch, tokens]")
    rows, width = ids.shape
    context = context_of(model)
    if context is not None and width >= context:
        raise UserError("tokens", width, f"tokens, and the model takes {context} with what is added (context_length)")
    counts = np.full(rows, width) if lengths is None else _whole_numbers("lengths", lengths, 1, "[batch]")
    if counts.shape != (rows,):
        raise UserError("lengths", list(counts.shape), f"must be one for each of the {rows} rows of tokens")
    known = _known(counts)
    if known is not None and not ((known >= 1) & (known <= width)).all():
        raise UserError("lengths", known.tolist(), f"must be from 1 to the {width} tokens of a row")
    if known is not None and (written := _known(ids)) is not None:
        _check_ids(field, written[np.arange(width) < known[:, None]], _vocabulary(model))
    return jnp.asarray(ids, jnp.int32), jnp.asarray(counts, jnp.int32)


def _whole_numbers(field: str, values: Numbers, axes: int, shape: str) -> jax.Array | np.ndarray:
    """An array, which may be a traced one: of whole numbers, with so many axes and none of them empty."""
    try:
        array = values if isinstance(values, jax.Array) else np.asarray(values)
    except ValueError:  # rows of several lengths
        raise UserError(field, None, f"must be whole numbers {shape}, rows of one length") from None
    if array.ndim != axes or not jnp.issubdtype(array.dtype, jnp.integer) or not array.size:
        raise UserError(field, f"{array.dtype}{list(array.shape)}", f"must be whole numbers {shape}")
    return array


def _vocabulary(model: Writer) -> int | None:
    """How many ids a model knows; None of a user's own that doesn't say."""
    return getattr(getattr(model, "config", None), "vocabulary_size", None)


def _known(values: Numbers) -> np.ndarray | None:
    """Values that can be looked at; None under a trace, or where other processes hold some of them."""
    if isinstance(values, jax.core.Tracer) or (isinstance(values, jax.Array) and not values.is_fully_addressable):
        return None
    return np.asarray(values)


def _check_ids(field: str, ids: np.ndarray, vocabulary: int | None) -> None:
    """Refuses ids that a model has no row for: indexing would take another's, or zeros, in silence."""
    if vocabulary is None:
        return
    if (outside := ids[(ids < 0) | (ids >= vocabulary)]).size:
        raise UserError(field, int(outside[0]), f"is no id of this model: its vocabulary has 0 to {vocabulary - 1:,}")
