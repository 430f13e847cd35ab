"""What torch cannot tell of itself by being tried: what is no function of it, or goes different ways inside."""

from __future__ import annotations

INDEXING = frozenset({"getitem", "setitem", "identity"})
"""What gives its operand's dtype, and belongs to its graph, without a function of torch's."""
RECURRENT = frozenset("lstm gru rnn lstm_cell gru_cell rnn_cell multi_head_attention transformer".split())
"""Modules that hand their input to kernels of the backend."""
PAIRS = frozenset("lstm gru rnn lstm_cell multi_head_attention".split())
"""Those of them that return two things."""
UNTOLD = frozenset({"multi_head_attention_forward"})
"""Functions of which nothing is claimed: which operations they run depends on which operands are the same."""
FLAT = frozenset({"round", "floor", "ceil", "trunc", "sign"})
"""Operations that autograd records with a derivative of zero."""
