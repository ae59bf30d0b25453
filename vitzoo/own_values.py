"""What a user's own part gives, checked for what it must be where it is taken; vitzoo's parts are known to be right.

What is computed on devices is checked as it is traced, so that a compiled step pays nothing for it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.errors import as_text
from vitzoo.registry import USER_PARTS, UserPartError, name_of

LONGEST = 80
"""Characters of a value in a message."""


def refusal(part: Any, method: str, value: Any, wanted: str) -> UserPartError:
    """What is told of a wrong value.

    Args:
        part: the settings of the user's own part, as its class makes them.
        method: of it that gave the value, or the attribute that holds it.
        value: the value, or of text what is wrong with it, as `Wrong`.
        wanted: what it must be.
    """
    name = name_of(part)
    return UserPartError(USER_PARTS[name], name, f"its `{method}` gives {shown(value)}; wanted is {wanted}")


class Wrong(str):
    """What a message says of a value in place of the value."""


def shown(value: Any) -> str:
    """A value in a few words: arrays by type and shape, `float32[3]`."""
    if isinstance(value, Wrong):
        return str(value)
    if is_array(value) and not isinstance(value, np.generic):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None or isinstance(value, str | bytes | bool | int | float | complex | np.generic):
        text = as_text(value.item() if isinstance(value, np.generic) else value)
        text = repr(text) if isinstance(value, str) else text
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return f"`{getattr(value, '__name__', type(value).__name__)}`"


def is_array(value: Any) -> bool:
    """Whether it has a shape and a type, as arrays, tracers and `ShapeDtypeStruct`s have."""
    return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")


def is_numbers(value: Any, kind: Any = None) -> bool:
    """Whether it is a real number or an array of them; of the type `kind`, such as `jnp.floating`, if that is given."""
    if isinstance(value, bool | int | float):
        value = np.asarray(value)
    kinds = (jnp.floating, jnp.integer, jnp.bool_) if kind is None else (kind,)
    return is_array(value) and any(jnp.issubdtype(value.dtype, one) for one in kinds)


def is_number(value: Any, kind: Any = None) -> bool:
    """Whether it is one real number, of that type."""
    return is_numbers(value, kind) and np.shape(value) == ()


def has_rows(value: Any, count: int) -> bool:
    """Whether it is an array with so many rows."""
    return is_array(value) and value.shape[:1] == (count,)


def fault(value: Any, good: Callable[[Any], bool]) -> Wrong | None:
    """What is wrong with a dict of values by name; None where nothing is.

    Args:
        value: it, or what stands in its place.
        good: whether a value of it is right.
    """
    if not isinstance(value, Mapping):
        return Wrong(shown(value))
    if other := [name for name in value if not isinstance(name, str)]:
        return Wrong(f"{shown(other[0])} as a name")
    return next((Wrong(f"{shown(one)} for {name}") for name, one in value.items() if not good(one)), None)


def unlike(value: Any, like: Any) -> Wrong | None:
    """What is wrong with nested arrays that must be of the same structure, shapes and types as others; None where
    nothing is.
    """
    leaves, structure = jax.tree.leaves_with_path(like), str(jax.tree.structure(like))
    if structure != str(jax.tree.structure(value)):
        return Wrong(f"{shown(value)}, of another structure" if type(value) is type(like) else shown(value))
    for (path, old), new in zip(leaves, jax.tree.leaves(value), strict=True):
        if not is_numbers(new) or (np.shape(new), jnp.result_type(new)) != (np.shape(old), jnp.result_type(old)):
            return Wrong(
                f"{shown(new)} in place of {shown(old)} for {jax.tree_util.keystr(path, simple=True, separator='/')}"
            )
    return None
