"""The hook hears of everything that makes the host wait."""

from __future__ import annotations

import pytest
from simulated import Simulated

CASES = {
    "x.sum().item()": [["sync", "aten::_local_scalar_dense"]],
    "bool((x > 0).any())": [["sync", "aten::_local_scalar_dense"]],
    "float(x[0])": [["sync", "aten::_local_scalar_dense"]],
    "x[x > 0]": [["sync", "aten::nonzero"]],
    "torch.nonzero(x)": [["sync", "aten::nonzero"]],
    "torch.unique(x)": [["sync", "aten::_unique2"]],
    "torch.masked_select(x, x > 0)": [["sync", "aten::masked_select"]],
    "torch.equal(x, x)": [["sync", "aten::equal"]],
    "x.cpu()": [["d2h", "aten::copy_"]],
    "x.tolist()": [["d2h", "aten::copy_"]],
    "x.to('cpu', non_blocking=True)": [["d2h_async", "aten::copy_"]],
    "h.cuda()": [["h2d", "aten::copy_"]],
    "h.cuda(non_blocking=True)": [["h2d_async", "aten::copy_"]],
    "torch.tensor([1.0], device='cuda')": [["h2d", "aten::copy_"]],
    "x[torch.tensor([0, 1])]": [["h2d", "aten::index"]],
    "torch.cuda.synchronize()": [["sync", "torch.cuda.synchronize"]],
    "torch.cuda.current_stream().synchronize()": [["sync", "torch.cuda.Stream.synchronize"]],
    "torch.cuda.Event().synchronize()": [["sync", "torch.cuda.Event.synchronize"]],
    "x.masked_fill(x > 0, 0.0)": [],
    "x[0]": [],
    "x + h[0]": [],
    "x.clone().mul_(2).relu()": [],
    "torch.arange(3, device='cuda')": [],
}


@pytest.mark.parametrize("code", CASES)
def test_sync(sim: Simulated, code: str) -> None:
    prepared = "h = torch.ones(3)\nx = torch.ones(3, device='cuda')\nsyncs.clear()\n"
    assert sim.run(f"{prepared}{code}\nresult = syncs") == CASES[code]
