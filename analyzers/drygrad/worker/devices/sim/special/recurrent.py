"""The fused cells of LSTM and GRU, which only a GPU has, by their definitions."""

from __future__ import annotations

import torch
from torch import Tensor


def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cx: Tensor, input_bias: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """``aten::_thnn_fused_lstm_cell``: hidden state, cell state, and the gates that backward wants."""
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, bias)
    i, f, c, o = gates.chunk(4, 1)
    i, f, c, o = i.sigmoid(), f.sigmoid(), c.tanh(), o.sigmoid()
    cy = f * cx + i * c
    return o * cy.tanh(), cy, torch.cat([i, f, c, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """``aten::_thnn_fused_lstm_cell_backward_impl``."""
    i, f, c, o = workspace.chunk(4, 1)
    grad_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_cy = torch.zeros_like(cy) if grad_cy is None else grad_cy
    squashed = cy.tanh()
    through = grad_cy + grad_hy * o * (1 - squashed * squashed)
    of_output = grad_hy * squashed * o * (1 - o)
    parts = [through * c * i * (1 - i), through * cx * f * (1 - f), through * i * (1 - c * c), of_output]
    gates = torch.cat(parts, 1)
    return gates, through * f, _summed(gates, has_bias)


def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hx: Tensor, input_bias: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """``aten::_thnn_fused_gru_cell``: hidden state, and what backward wants."""
    ir, iz, candidate = _biased(input_gates, input_bias).chunk(3, 1)
    hr, hz, hn = _biased(hidden_gates, bias).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (candidate + r * hn).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hn], 1)


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """``aten::_thnn_fused_gru_cell_backward``."""
    r, z, n, hx, hn = workspace.chunk(5, 1)
    of_update = grad_hy * (hx - n) * z * (1 - z)
    of_candidate = grad_hy * (1 - z) * (1 - n * n)
    of_reset = of_candidate * hn * r * (1 - r)
    inputs = torch.cat([of_reset, of_update, of_candidate], 1)
    hidden = torch.cat([of_reset, of_update, of_candidate * r], 1)
    return inputs, hidden, grad_hy * z, _summed(inputs, has_bias), _summed(hidden, has_bias)


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _summed(gates: Tensor, has_bias: bool) -> Tensor:
    return gates.sum(0) if has_bias else torch.empty(0, device=gates.device)
