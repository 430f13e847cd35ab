"""Programs of small operations and one of large ones, each a function as users write them; they print what they took.

``python tests/bench/small_programs.py NAME`` runs one as plain Python does. What is printed is the processor time of
the loop alone: imports, and what torch does once in a process, come before.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from gpt_step import CHARACTERS, training_step
from torch import Tensor, nn
from torch.distributions import Categorical


def rollout(device: str) -> None:
    """Play 512 steps of an environment with a policy, and learn nothing."""
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)).to(device)
    values = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    push = torch.randn(2, 4, device=device) * 0.1
    seen = torch.zeros(512, 4, device=device)
    rewards = torch.zeros(512, device=device)
    log_probabilities = torch.zeros(512, device=device)
    state = torch.zeros(4, device=device)
    began = time.process_time()
    for step in range(512):
        seen[step] = state
        with torch.no_grad():
            chosen: Any = Categorical(logits=policy(state))
            action = chosen.sample()
            log_probabilities[step] = chosen.log_prob(action)
            rewards[step] = values(state).squeeze()
        state = (0.99 * state + push[action]).clamp(-2, 2)
        if bool(state.abs().max() > 1.9):
            state = torch.zeros(4, device=device)
    print(time.process_time() - began)


def cells(device: str) -> None:
    """Take 500 steps with the cell of an LSTM, and go backward through them."""
    cell, head = nn.LSTMCell(16, 32).to(device), nn.Linear(32, 1).to(device)
    words = torch.randn(500, 4, 16, device=device)
    hidden, memory = torch.zeros(4, 32, device=device), torch.zeros(4, 32, device=device)
    outputs: list[Tensor] = []
    torch.autograd.backward(head(hidden).sum())
    began = time.process_time()
    for word in words:
        hidden, memory = cell(word, (hidden, memory))
        outputs.append(head(hidden))
    loss: Any = torch.stack(outputs).square().mean()
    loss.backward()
    print(time.process_time() - began)


def elementwise(device: str) -> None:
    """Compute with 2,000 operations on a few numbers."""
    x, y = torch.linspace(-1, 1, 64, device=device), torch.full((64,), 0.5, device=device)
    began = time.process_time()
    for _ in range(400):
        slope = 2 * x - y
        step = torch.sigmoid(slope) * 0.1
        x = x - step
    print(time.process_time() - began)


def learning(device: str) -> None:
    """Take 200 steps of training with a small model."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 16, device=device), torch.randint(0, 4, (32,), device=device)
    torch.autograd.backward(nn.functional.cross_entropy(model(x), y))
    optimizer.step()
    began = time.process_time()
    for _ in range(200):
        optimizer.zero_grad()
        loss: Any = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(time.process_time() - began)


def gpt(device: str) -> None:
    """Take two steps of training with a GPT of ten million parameters, after one to warm up."""
    step = training_step(device, 8, CHARACTERS)
    step()
    began = time.process_time()
    for _ in range(2):
        step()
    print(time.process_time() - began)


PROGRAMS = {function.__name__: function for function in (rollout, cells, elementwise, learning, gpt)}

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.default_generator.manual_seed(0)
    PROGRAMS[sys.argv[1]]("cpu")
