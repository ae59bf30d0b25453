"""Beam search finds what transformers finds, each row by itself, and a greedy search where one hypothesis is kept."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_text_goldens import Golden, compiled

from vitzoo.cli import main
from vitzoo.decoding.beams import BeamSearch, search
from vitzoo.decoding.generate import how_of
from vitzoo.decoding.start import start
from vitzoo.errors import UserError
from vitzoo.nn import state
from vitzoo.nn.attention import KeyValues
from vitzoo.nn.stack import KVCache

NEW, BEAMS = 12, 3


@dataclasses.dataclass
class Chain:
    """A decoder whose next token depends on the last two and their place, by a table of logits."""

    table: np.ndarray
    config: types.SimpleNamespace = dataclasses.field(default_factory=lambda: types.SimpleNamespace(context_length=99))

    def begin(self, batch, length):
        return KVCache(KeyValues(jnp.zeros((1, batch, length, 1, 1)), jnp.zeros((1, batch, length, 1, 1))))

    def extend(self, tokens, positions, cache, keep=None):
        rows = jnp.arange(len(tokens))[:, None]
        past = jax.tree.map(lambda kept: kept.at[0, rows, positions, 0, 0].set(tokens), cache.past)
        last = tokens if keep is None else jnp.take_along_axis(tokens, keep[:, None], 1)
        # the token before the last counts as well, so that a cache of the wrong parent shows; and the place, so that
        # no two texts are equally probable
        place = positions[:, :1] if keep is None else keep[:, None]
        before = past.key[0, rows, jnp.maximum(place - 1, 0), 0, 0].astype(int)
        logits = jnp.asarray(self.table)[last] + 0.5 * jnp.asarray(self.table)[before][..., ::-1]
        return logits * (1 + 0.05 * place[..., None]), KVCache(past)


def plainly(table, prompt, most, how, end, allowed):
    """The rules of the module's docstring, on lists."""

    def log_probabilities(ids):
        logits = table[ids[-1]] + 0.5 * table[ids[-2] if len(ids) > 1 else ids[0]][::-1]
        logits = np.where(allowed, logits * (1 + 0.05 * (len(ids) - 1)), -1e30)
        return logits - np.log(np.exp(logits).sum())

    def score(total, count):
        gnmt = how.length_normalisation == "gnmt"
        return total / ((5 + count) / 6 if gnmt else count) ** how.length_penalty

    running, finished = [(0.0, [])], []
    for count in range(1, most + 1):
        found = [
            (total + each, [*ids, id])
            for total, ids in running
            for id, each in enumerate(log_probabilities([*prompt, *ids]))
        ]
        found = sorted(found, key=lambda one: -one[0])[: 2 * how.num_beams]
        over = [one[1][-1] == end or count == most for one in found]
        finished += [
            (score(one[0], count), one[1])
            for one, ended in zip(found[: how.num_beams], over[: how.num_beams], strict=True)
            if ended
        ]
        finished = sorted(finished, key=lambda one: -one[0])[: how.num_beams]
        running = [one for one, ended in zip(found, over, strict=True) if not ended][: how.num_beams]
        if len(finished) == how.num_beams and running:
            length = most if how.early_stopping == "never" and how.length_penalty > 0 else count
            if how.early_stopping is True or score(running[0][0], length) <= finished[-1][0]:
                break
    return finished


@pytest.mark.parametrize(
    "how",
    [
        BeamSearch(4, 0.6, "gnmt", "never"),
        pytest.param(BeamSearch(2, 1.0, "power", True), marks=pytest.mark.slow),
        pytest.param(BeamSearch(3, 0.0), marks=pytest.mark.slow),
        pytest.param(BeamSearch(3, 2.0, "power", "never"), marks=pytest.mark.slow),
        pytest.param(BeamSearch(3, -0.5, "power", "never"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_way_to_score_and_to_stop_is_as_told(how):
    random = np.random.default_rng(0)
    tables = random.normal(size=(8, 9, 9)) * 2
    tables[:, :, 5] += 3  # it would come often, and is not allowed
    prompts, lengths, most = random.integers(9, size=(3, 4)), np.array([4, 1, 2]), np.array([7, 5, 7])
    allowed = np.arange(9) != 5

    @compiled
    def run(table):
        model = Chain(table)
        return search(model, start(model, prompts, lengths, 4 + 7), most, 7, how, ends=(8,), allowed=allowed)

    for table in tables.astype(np.float32):
        found = run(table)
        for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
            right = plainly(table.astype(np.float64), list(prompt[:length]), most[row], how, 8, allowed)
            ids = [list(found.ids[row, beam, : found.lengths[row, beam]]) for beam in range(how.num_beams)]
            assert ids == [one[1] for one in right]
            np.testing.assert_allclose(found.scores[row], [one[0] for one in right], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gpt2", "t5", "t5_v1_1"])
def test_all_hypotheses_are_those_of_transformers_for_prompts_of_different_lengths(case):
    golden = Golden(case)
    known, decoder = golden.known, case == "gpt2"
    rows, lengths = made_prompts(known)

    @compiled
    def run(params, penalty):
        model = state.merge(golden.graph, params)
        started = start(model, rows, lengths, rows.shape[1] + NEW if decoder else 1 + NEW)
        return search(model, started, np.full(3, NEW), NEW, BeamSearch(BEAMS, penalty), (int(known["end"]),))

    for penalty in (0.6, 1.0):
        assert_recorded(run(golden.params, penalty), known, f"{penalty}", lengths if decoder else [1, 1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gpt2", "t5", "t5_v1_1"])
@pytest.mark.parametrize("stopping", [True, "never"])
def test_a_search_is_over_when_transformers_is(case, stopping):
    golden = Golden(case)
    rows, lengths = made_prompts(golden.known)
    model, how = state.merge(golden.graph, golden.params), BeamSearch(BEAMS, early_stopping=stopping)
    started = start(model, rows, lengths, 17)
    found = search(model, started, np.full(3, NEW), NEW, how, (int(golden.known["end"]),))
    assert_recorded(found, golden.known, f"1.0/{stopping}".lower(), lengths if case == "gpt2" else [1, 1, 1])


def made_prompts(known):
    prompts = [known[f"prompt_{index}"] for index in range(3)]
    lengths = np.array([len(prompt) for prompt in prompts])
    return np.stack([np.pad(prompt, (0, max(lengths) - len(prompt))) for prompt in prompts]), lengths


def assert_recorded(found, known, name, begins):
    for row, begin in enumerate(begins):
        right = known[f"beams/{name}_{row}"][:, begin:]
        for beam, wanted in enumerate(right):
            length = int(found.lengths[row, beam])
            np.testing.assert_array_equal(found.ids[row, beam, :length], wanted[:length])
            assert length == NEW or found.ids[row, beam, length - 1] == known["end"]
        np.testing.assert_allclose(found.scores[row], known[f"scores/{name}_{row}"], atol=1e-5)


@pytest.mark.parametrize("penalty", [-1000.0, -5.01, 5.01, 1e38, -1e300, float("inf"), float("nan")])
@pytest.mark.parametrize("normalisation", ["power", "gnmt"])
def test_a_penalty_by_which_no_text_could_be_told_from_another_is_refused(penalty, normalisation, capsys):
    with pytest.raises(UserError, match=r"^length_penalty = .*: must be (a finite number|at least -5 and at most 5)$"):
        how_of({"num_beams": 2, "length_penalty": penalty, "length_normalisation": normalisation})
    flags = ["--num-beams", "2", f"--length-penalty={penalty}", "--length-normalisation", normalisation]
    assert main(["generate", "--checkpoint", "none", "--prompt", "a", *flags]) == 2
    assert "length" in capsys.readouterr().err


@pytest.mark.parametrize("number", [0, -1, -(2**40)])
def test_fewer_than_one_beam_is_refused(number, capsys):
    with pytest.raises(UserError, match=f"^num_beams = {number}: must be at least 1 "):
        how_of({"num_beams": number})
    assert main(["generate", "--checkpoint", "none", "--prompt", "a", f"--num-beams={number}"]) == 2
    assert "must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("penalty", [-5.0, -1.0, 0.0, 5.0])
@pytest.mark.parametrize("normalisation", ["power", "gnmt"])
@pytest.mark.parametrize("length", [1, 3, 1024, 2**20])
def test_every_penalty_that_is_taken_leaves_finite_scores_that_differ(penalty, normalisation, length):
    how = BeamSearch(length_penalty=penalty, length_normalisation=normalisation)
    scores = np.asarray(jnp.array([-1e8, -2.0, -1.0, -1e-6]) / how.divisor(jnp.int32(length)))
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 0).all()
    assert scores[-1] < 0
