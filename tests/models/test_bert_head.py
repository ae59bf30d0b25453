"""What a BERT's head of a whole text reads: the pooler, or the text's embedding, in which padding never counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.models.bert import BERT, BERTConfig
from vitzoo.nn import paths, state
from vitzoo.nn.execution import Execution

LENGTHS = (5, 3)
SIZES = {"vocabulary_size": 270, "context_length": 16, "width": 16, "depth": 1, "num_heads": 2, "mlp_dim": 24}
CHOICES = {
    "mean": ({"pooler": False}, "mean"),
    "cls": ({"head_reads": "embedding", "pooling": "cls"}, "cls"),
    "pooler": ({}, "pooler"),
}


def made_model(**changes):
    """The config, the structure and random parameters of a tiny BERT without dropout."""
    config = BERTConfig(**SIZES, dropout=0.0, attention_dropout=0.0, num_classes=3, **changes)
    execution = Execution(custom_gradient=False)
    graph, shapes = state.abstract(lambda rngs: BERT(config, rngs=rngs, execution=execution))
    draws = np.random.default_rng(0)
    flat = {path: 0.3 * draws.normal(size=leaf.shape) for path, leaf in paths.flatten(shapes).items()}
    return config, graph, paths.unflatten({path: value.astype(np.float32) for path, value in flat.items()})


@pytest.fixture(scope="module")
def texts():
    """Two texts as rows of 8 tokens, and each alone."""
    tokens = np.random.default_rng(0).integers(1, 270, (2, 8)).astype(np.int32)
    segments = (np.arange(8) < np.array(LENGTHS)[:, None]).astype(np.int32)
    return tokens, segments, [tokens[row : row + 1, :length] for row, length in enumerate(LENGTHS)]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("changes", "reads", "head"),
    [
        ({"pooler": False}, "mean", "classes"),
        pytest.param({"head_reads": "embedding", "pooling": "cls"}, "cls", "number", marks=pytest.mark.slow),
        pytest.param({}, "pooler", "classes", marks=pytest.mark.slow),
    ],
)
def test_logits_and_gradients_of_a_text_are_the_same_alone_and_padded(changes, reads, head, texts):
    config, graph, params = made_model(head=head, **changes)
    assert (config.head_input, "pooler" in params) == (reads, reads == "pooler")
    tokens, segments, alone = texts
    tokens = np.where(segments, tokens, 7)  # padding of any id

    def of_first(params, tokens, segments=None):
        """Outputs, and the gradient of the first text's."""

        def loss(params):
            outputs = state.merge(graph, params)(tokens, tokens_segments=segments)
            return jnp.square(outputs[0]).sum(), outputs

        gradient, outputs = jax.grad(loss, has_aux=True)(params)
        return paths.flatten(gradient), outputs

    run = jax.jit(of_first, compiler_options={"xla_backend_optimization_level": 0})
    (gradients, padded), (wanted, right) = run(params, tokens, segments), run(params, alone[0])
    np.testing.assert_allclose(padded[0], right[0], rtol=1e-5, atol=1e-5)
    for path, gradient in wanted.items():
        np.testing.assert_allclose(gradients[path], gradient, atol=2e-5 * max(1, abs(gradient).max()), err_msg=path)


def test_the_head_reads_the_mean_of_the_real_tokens_not_scaled_to_length_1(texts):
    tokens, segments, _ = texts
    _, graph, params = made_model(head="classes", pooler=False, unit_embedding=True)
    model = state.merge(graph, jax.tree.map(jnp.asarray, params))
    x = model.encode(tokens, tokens_segments=segments)
    for row, length in enumerate(LENGTHS):
        mean = np.asarray(x)[row, :length].mean(0)
        np.testing.assert_allclose(model.pooled(x, segments)[row], mean, atol=1e-5)
        right = mean @ params["head"]["kernel"] + params["head"]["bias"]
        np.testing.assert_allclose(model.class_logits(x, segments)[row], right, atol=1e-4)
        unit = model.sentence_embedding(x, segments)[row]
        np.testing.assert_allclose(unit, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_row_of_padding_alone_is_finite_and_every_leaf_has_a_sharding_rule(texts):
    tokens = texts[0]
    _, graph, params = made_model(head="classes", pooler=False)
    model = state.merge(graph, jax.tree.map(jnp.asarray, params))
    assert np.isfinite(model(tokens, tokens_segments=np.zeros_like(tokens))).all()
    paths.match_rules(BERT.SHARDING_RULES, params, "SHARDING_RULES", every_leaf=True, every_rule=False)


def test_a_head_that_is_to_read_a_pooler_which_is_not_there_is_refused():
    with pytest.raises(UserError, match="head_reads = pooler: there is none"):
        BERTConfig(pooler=False, head_reads="pooler").check()
    assert BERTConfig(head="pretraining", head_reads="embedding").has_pooler
    assert not BERTConfig(head="classes", num_classes=2, head_reads="embedding").has_pooler
