"""What `generate` is given is looked at: an id that a model doesn't have would pass for another."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_text_models import SIZES, Tiny

from vitzoo.errors import UserError

VOCABULARY = SIZES["vocabulary_size"]
WRITERS = ("gpt", "llama", "t5", "transformer")  # decoders, and encoder-decoders with their sources


FIELD = dict.fromkeys(WRITERS, "tokens") | dict.fromkeys(("t5", "transformer"), "source")


@functools.cache
def written_by(family):
    tiny = Tiny(family)
    return tiny.merged(tiny.params)


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        *[(kind, odd) for kind in (np.array, list, jnp.asarray) for odd in (VOCABULARY, 99, -1, 2**31 - 1)],
        *[(kind, odd) for kind in (np.array, list) for odd in (2**32 + 1, -(2**40))],  # whose 32 bits would be ids
    ],
)
def test_an_id_outside_the_vocabulary_is_refused(family, odd, kind):
    message = f"^{FIELD[family]} = {odd}: is no id of this model: its vocabulary has 0 to {VOCABULARY - 1}$"
    with pytest.raises(UserError, match=message):
        written_by(family).generate(kind([[1, 2], [odd, 1]]), max_new_tokens=2)


@pytest.mark.gate
@pytest.mark.parametrize("family", ["gpt", "t5"])
def test_what_fills_rows_up_may_be_anything(family):
    model = written_by(family)
    found = [model.generate(np.array([[1, filler]]), [1], max_new_tokens=2, temperature=0.0) for filler in (-1, 5, 99)]
    for one in found[1:]:
        np.testing.assert_array_equal(one.ids, found[0].ids)
    with pytest.raises(UserError, match=f"^{FIELD[family]} = 99"):
        model.generate(np.array([[1, 99]]), [2])


@pytest.mark.parametrize("family", WRITERS)
def test_under_a_trace_ids_stay_as_they_are(family):
    def write(tokens, lengths):
        return written_by(family).generate(tokens, lengths, max_new_tokens=3).ids

    assert jax.eval_shape(write, np.array([[99, 1]]), np.array([2])).shape == (1, 3)


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lengths": [3]}, r"^lengths = \[3\]: must be from 1 to the 2 tokens of a row$"),
        ({"lengths": [0]}, r"^lengths = \[0\]: must be from 1"),
        ({"lengths": [1.5]}, r"^lengths = float64\[1\]: must be whole numbers \[batch\]$"),
        ({"lengths": [1, 2]}, r"^lengths = \[2\]: must be one for each of the 1 rows"),
        ({"end_id": VOCABULARY}, f"^end_id = {VOCABULARY}: is no id of this model"),
        ({"end_id": -1}, "^end_id = -1: is no id of this model"),
        ({"end_id": 1.5}, "^end_id = 1.5: must be an integer$"),
        ({"allowed": np.ones(VOCABULARY - 1, bool)}, rf"^allowed = \[{VOCABULARY - 1}\]: must be one for each of the"),
        ({"tokens": [[1, 2], [3]]}, r"^tokens: must be whole numbers \[batch, tokens\], rows of one length$"),
        ({"tokens": [[2**70, 1]]}, r"^tokens = object\[1, 2\]: must be whole numbers"),
    ],
)
def test_other_arguments_that_do_not_fit_are_refused(family, arguments, message):
    arguments = dict(arguments)
    tokens = arguments.pop("tokens", np.array([[1, 2]]))
    with pytest.raises(UserError, match=message.replace("^tokens", f"^{FIELD[family]}")):
        written_by(family).generate(tokens, **arguments)
