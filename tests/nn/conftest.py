"""What the tests of parts share."""

from functools import partial

import jax
import pytest


@pytest.fixture(scope="session")
def once():
    """`jax.jit` without optimisation, for functions that are compiled for one run."""
    return partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
