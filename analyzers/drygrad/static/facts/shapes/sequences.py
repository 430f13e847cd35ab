"""Recurrent layers, attention and transformers."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import Mismatch, Outputs, Unknown, broadcast, differ, product, shape_text
from drygrad.static.facts.shapes.reading import Handler, Reader
from drygrad.static.facts.values import Dim, Shape


def _check_features(kind: str, shape: Shape, taken: Dim) -> None:
    if not shape or differ(shape[-1], taken):
        size = shape[-1] if shape else "no"
        raise Mismatch(kind, f"the input's last dimension has {size} features, expected {taken}")


def _recurrent(reader: Reader) -> Outputs:
    shape, hidden = reader.shape(), reader.size("hidden_size")
    if len(shape) not in (2, 3):
        raise Mismatch("rnn", f"a recurrent layer expects 2 or 3 dimensions, but the input is {shape_text(shape)}")
    _check_features("rnn", shape, reader.size("input_size"))
    directions = 2 if reader.flag("bidirectional") else 1
    projected = reader.integer("proj_size", 0)
    layers = product((reader.integer("num_layers", 1), directions))
    place = 0 if reader.flag("batch_first") else 1
    batch = () if len(shape) == 2 else (shape[place],)
    output = (*shape[:-1], product((projected or hidden, directions)))
    state: Shape = (layers, *batch, projected or hidden)
    if reader.call.module is not None and reader.call.module.type.endswith("LSTM"):
        return Outputs([output, Outputs([state, (layers, *batch, hidden)])])
    return Outputs([output, state])


def _cell(reader: Reader) -> Shape | Outputs:
    shape = reader.shape()
    if len(shape) not in (1, 2):
        raise Mismatch("rnn", f"a recurrent cell expects 1 or 2 dimensions, but the input is {shape_text(shape)}")
    _check_features("rnn", shape, reader.size("input_size"))
    state = (*shape[:-1], reader.size("hidden_size"))
    return Outputs([state] * 2) if reader.call.module and reader.call.module.type.endswith("LSTMCell") else state


def _multihead(reader: Reader) -> Outputs:
    query, key = reader.shape(0, "query"), reader.shape(1, "key")
    if len(query) not in (2, 3):
        raise Mismatch("attention", f"attention expects 2 or 3 dimensions, but the query is {shape_text(query)}")
    _check_features("attention", query, reader.size("embed_dim"))
    if reader.given("kdim") is None:
        _check_features("attention", key, reader.size("embed_dim"))
    return Outputs([query, _weights(reader, query, key)])


def _weights(reader: Reader, query: Shape, key: Shape) -> Shape | None:
    if not reader.flag("need_weights", True) or len(query) != len(key):
        return None
    if reader.flag("add_bias_kv", False) or reader.flag("add_zero_attn", False):
        return None  # there are more keys than positions
    averaged = reader.flag("average_attn_weights", True)
    heads = () if averaged else (reader.size("num_heads"),)
    if len(query) == 2:
        return (*heads, query[0], key[0])
    batch, length = (0, 1) if reader.flag("batch_first") else (1, 0)
    return (query[batch], *heads, query[length], key[length])


def _transformer_layer(reader: Reader) -> Shape:
    shape = reader.shape(0, "src", "tgt")
    if len(shape) not in (2, 3):
        raise Mismatch("attention", f"expected 2 or 3 dimensions, but the input is {shape_text(shape)}")
    _check_features("attention", shape, reader.size("d_model"))
    return shape


def _transformer_stack(reader: Reader) -> Shape:
    return reader.shape(0, "src", "tgt")


def _transformer(reader: Reader) -> Shape:
    target = reader.shape(1, "tgt")
    for shape in (reader.shape(0, "src"), target):
        _check_features("attention", shape, reader.integer("d_model", 512))
    return target


def _attention(reader: Reader) -> Shape:
    query, key, value = reader.shape(0, "query"), reader.shape(1, "key"), reader.shape(2, "value")
    if min(map(len, (query, key, value))) < 2:
        raise Unknown
    if differ(query[-1], key[-1]):
        raise Mismatch("attention", f"the query has {query[-1]} features, the key {key[-1]}")
    if differ(key[-2], value[-2]):
        raise Mismatch("attention", f"the key has {key[-2]} positions, the value {value[-2]}")
    if reader.given("enable_gqa") is not None:
        return (*query[:-1], value[-1])
    return (*(broadcast(query[:-2], key[:-2], value[:-2]) or ()), query[-2], value[-1])


OPERATIONS: dict[str, Handler] = {"scaled_dot_product_attention": _attention}
MODULES: dict[str, Handler] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("LSTMCell", "GRUCell", "RNNCell"), _cell),
    "MultiheadAttention": _multihead,
    **dict.fromkeys(("TransformerEncoderLayer", "TransformerDecoderLayer"), _transformer_layer),
    **dict.fromkeys(("TransformerEncoder", "TransformerDecoder"), _transformer_stack),
    "Transformer": _transformer,
}
