"""Padding is silent: a target is called with sequences that are padded, and with those that end where they are real."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_harness import examined, line_of

from drygrad.worker.experiments.padding import PaddingIsSilent
from drygrad.worker.run import Fault

_MASK = "torch.tensor([[True] * 6, [True] * 4 + [False] * 2])"

_ENCODER = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def f(self, x, padding_mask):
            x = self.encoder(x, src_key_padding_mask=padding_mask)
            {}
            return self.head(x)
    """
_SCORES = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)

        def f(self, x, mask):
            q, k, v = self.qkv(x).chunk(3, -1)
            scores = q @ k.transpose(1, 2)
            {}
            return (weights @ v * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    """
_PACKED = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(5, 8, batch_first=True, bidirectional=True)

        def f(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, last = self.rnn(packed)
            out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
            {}
    """
_WORDS = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 8, padding_idx=0)
            self.head = nn.Linear(8, 3)

        def f(self, ids):
            x = self.words(ids)
            {}
            return self.head(x)
    """
_LAST = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 8)
            self.rnn = nn.LSTM(8, 6, batch_first=True)

        def f(self, ids, lengths):
            out, _ = self.rnn(self.words(ids))
            inside = torch.arange(ids.shape[1])[None] < lengths[:, None]
            {}
    """
_LONGEST = """
    def f(x, lengths):
        inside = (torch.arange(lengths.max())[None] < lengths[:, None])[..., None]
        {}
    """
_LOSS = """
    def f(prediction, target, mask):
        error = (prediction - target).square()
        {}
    """
_ATTENTION = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def f(self, x, attention_mask):
            {}
            return (x * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
    """
_CLASS_TOKEN = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.randn(1, 1, 8))
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def f(self, x, attention_mask):
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
            away = F.pad(attention_mask == 0, (1, 0), value=False)
            {}
            return x[:, 0]
    """

PAIRS = {
    "a mean over padding": (
        _ENCODER,
        f"self=f(), x=torch.randn(2, 6, 8), padding_mask=~{_MASK}",
        "x = x.mean(1)",
        "x = x.masked_fill(padding_mask[..., None], 0).sum(1) / (~padding_mask).sum(1, keepdim=True)",
        "warning",
    ),
    "the last position of all": (
        _ENCODER,
        f"self=f(), x=torch.randn(2, 6, 8), padding_mask=~{_MASK}",
        "x = x[:, -1]",
        "x = x[torch.arange(x.shape[0]), (~padding_mask).sum(1) - 1]",
        "warning",
    ),
    "weights that are masked after the softmax": (
        _SCORES,
        f"self=f(), x=torch.randn(2, 6, 8), mask={_MASK}",
        "weights = scores.softmax(-1) * mask[:, None]",
        "weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)",
        "warning",
    ),
    "scores that are multiplied by the mask": (
        _SCORES,
        f"self=f(), x=torch.randn(2, 6, 8), mask={_MASK}.long()",
        "weights = (scores * mask[:, None]).softmax(-1)",
        "weights = (scores + (1 - mask[:, None]) * -1e9).softmax(-1)",
        "warning",
    ),
    "a maximum over what packing has filled up": (
        _PACKED,
        "self=f(), x=torch.randn(3, 7, 5), lengths=torch.tensor([7, 4, 2])",
        "return out.mean(1)",
        "return last.transpose(0, 1).flatten(1)",
        "warning",
    ),
    "packed without a total length": (
        _PACKED.replace(", total_length=x.shape[1]", ""),
        "self=f(), x=torch.randn(3, 7, 5), lengths=torch.tensor([7, 4, 2])",
        "return out.mean(1)",
        "return last.transpose(0, 1).flatten(1)",
        "warning",
    ),
    "positions as far as the longest": (
        _LONGEST,
        "x=torch.randn(3, 7, 5), lengths=torch.tensor([7, 4, 2])",
        "return (x.relu() + 1).mean(1) + (x * inside).sum(1)",
        "return ((x.relu() + 1) * inside).sum(1) / lengths[:, None] + (x * inside).sum(1)",
        "warning",
    ),
    "the last state read at the padding": (
        _LAST,
        "self=f(), ids=torch.randint(1, 20, (3, 7)), lengths=torch.tensor([7, 4, 2])",
        "return torch.where(inside[..., None], out, 0)[:, 1] + out[:, -1]",
        "return torch.where(inside[..., None], out, 0)[:, 1] + out[torch.arange(3), lengths - 1]",
        "warning",
    ),
    "a mean of embeddings": (
        _WORDS,
        "self=f(), ids=torch.tensor([[3, 5, 7, 9], [4, 8, 0, 0]])",
        "x = x.mean(1)",
        "x = x.sum(1) / (ids != 0).sum(1, keepdim=True)",
        "warning",
    ),
    "a mean of embeddings of which none is seen to be padding": (
        _WORDS,
        "self=f(), ids=torch.randint(1, 20, (2, 5))",
        "x = x.mean(1)",
        "x = x.sum(1) / (ids != 0).sum(1, keepdim=True)",
        "info",
    ),
    "a loss of all positions": (
        _LOSS,
        f"prediction=torch.randn(2, 6, 3), target=torch.randn(2, 6, 3), mask={_MASK}",
        "return (error * mask[..., None]).mean()",
        "return (error * mask[..., None]).sum() / (mask.sum() * 3)",
        "warning",
    ),
    "attention that is not told of it": (
        _ATTENTION,
        "self=f(), x=torch.randn(2, 6, 8), attention_mask=torch.ones(2, 6, dtype=torch.long)",
        "x, _ = self.attention(x, x, x)",
        "x, _ = self.attention(x, x, x, key_padding_mask=attention_mask == 0)",
        "warning",
    ),
    "a class token that reads the padding": (
        _CLASS_TOKEN,
        "self=f(), x=torch.randn(2, 6, 8), attention_mask=torch.ones(2, 6, dtype=torch.long)",
        "x, _ = self.attention(x, x, x * 1.0 + 0 * away[..., None])",
        "x, _ = self.attention(x, x, x, key_padding_mask=away)",
        "warning",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_padding_that_reaches_the_result_is_told_where_it_does(case: str, tmp_path: Path) -> None:
    program, given, broken, right, severity = PAIRS[case]
    text = program.replace("{}", broken)
    (fault,) = examined(tmp_path, PaddingIsSilent, text, given)
    assert isinstance(fault, Fault)
    assert (line_of(text, fault), fault.code, fault.severity) == (broken, "DG927", severity)
    assert examined(tmp_path, PaddingIsSilent, program.replace("{}", right), given) == []


UNMARKED = {
    "samples that count more or less": (
        _LOSS.replace("{}", "return (error * mask).mean()"),
        "prediction=torch.randn(4), target=torch.randn(4), mask=torch.ones(4)",
    ),
    "a mask of no known meaning": (
        _SCORES.replace("{}", "weights = scores.softmax(-1)"),
        "self=f(), x=torch.randn(2, 6, 8), mask=torch.ones(2, 6)",
    ),
    "a mask of positions anywhere": (
        _SCORES.replace("{}", "weights = scores.softmax(-1)"),
        "self=f(), x=torch.randn(2, 6, 8), mask=torch.tensor([[1, 0, 1, 1, 0, 1], [1, 1, 0, 0, 1, 1]])",
    ),
    "an embedding without a class for it": (
        _WORDS.replace("{}", "x = x.mean(1)").replace(", padding_idx=0", ""),
        "self=f(), ids=torch.randint(20, (2, 5))",
    ),
    "whole numbers that are no lengths": (
        "def f(x, k):\n    return x.mean(1)[:, :2] * k[:, None]\n",
        "x=torch.randn(3, 6, 4), k=torch.tensor([1, 2, 1])",
    ),
}


@pytest.mark.parametrize("case", UNMARKED)
def test_what_nothing_marks_as_padded_is_not_tried(case: str, tmp_path: Path) -> None:
    program, given = UNMARKED[case]
    assert examined(tmp_path, PaddingIsSilent, program, given) == "none of its inputs are marked as padded"
