"""Programs whose memory others have measured and published: a function for each figure of ``published.md``."""

from __future__ import annotations

from collections.abc import Callable

import models
import older
import torch
from models import GPT, BertLarge, GPTBlock, VisionTransformer
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"


def with_torch_1_10(program: Callable[[], None]) -> None:
    models.softmax = older.softmax
    program()


def with_torch_2_0(program: Callable[[], None]) -> None:
    F.scaled_dot_product_attention = older.attention
    torch.optim.Adam = older.Adam
    program()


def finetune(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: int, dtype: torch.dtype = torch.float32
) -> None:
    for _ in range(3):
        features = torch.randn(batch, 3, 224, 224, device=DEVICE, dtype=dtype)
        targets = torch.randint(0, 10, (batch,), device=DEVICE)
        loss = F.cross_entropy(model(features), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def vit_float32() -> None:
    model = VisionTransformer(classes=10).to(DEVICE)
    finetune(model, torch.optim.Adam(model.parameters(), lr=5e-5), 64)


def vit_mixed() -> None:
    model = VisionTransformer(classes=10).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    scaler = torch.amp.GradScaler()
    for _ in range(3):
        features = torch.randn(64, 3, 224, 224, device=DEVICE)
        targets = torch.randint(0, 10, (64,), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.float16):
            logits = model(features)
        loss = F.cross_entropy(logits.float(), targets)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def vit_bfloat16() -> None:
    model = VisionTransformer(classes=10).to(DEVICE, torch.bfloat16)
    finetune(model, torch.optim.Adam(model.parameters(), lr=5e-5), 64, torch.bfloat16)


def vit_bfloat16_batch_16() -> None:
    model = VisionTransformer(classes=10).to(DEVICE, torch.bfloat16)
    finetune(model, torch.optim.Adam(model.parameters(), lr=5e-5), 16, torch.bfloat16)


def accumulate(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for step in range(8):
        features = torch.randn(4, 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
        targets = torch.randint(0, 10, (4,), device=DEVICE)
        (F.cross_entropy(model(features), targets) / 4).backward()
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()


def vit_bfloat16_accumulated() -> None:
    model = VisionTransformer(classes=10).to(DEVICE, torch.bfloat16)
    accumulate(model, torch.optim.Adam(model.parameters(), lr=5e-5))


def vit_bfloat16_accumulated_sgd() -> None:
    model = VisionTransformer(classes=10).to(DEVICE, torch.bfloat16)
    accumulate(model, torch.optim.SGD(model.parameters(), lr=0.01))


def vit_weights_float32() -> None:
    VisionTransformer(classes=10).to(DEVICE)


def vit_step() -> None:
    model = VisionTransformer().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.rand(1, 3, 224, 224, device=DEVICE)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def vit_step_in_backward() -> None:
    model = VisionTransformer().to(DEVICE)
    optimizers = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        model(torch.rand(1, 3, 224, 224, device=DEVICE)).sum().backward()


def vit_huge_mixed() -> None:
    model = VisionTransformer(width=1280, depth=32, heads=16, patch=14, classes=45).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        images = torch.randn(8, 3, 224, 224, device=DEVICE)
        labels = torch.randint(0, 45, (8,), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train_bert(batch: int, micro_batches: int = 1, *, checkpointing: bool = False) -> None:
    model = BertLarge(checkpointing=checkpointing).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for step in range(3 * micro_batches):
        ids = torch.randint(100, 30000, (batch, 512), device=DEVICE)
        labels = torch.randint(0, 2, (batch,), device=DEVICE)
        F.cross_entropy(model(ids), labels).backward()
        if step % micro_batches == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


def bert_weights() -> None:
    BertLarge().to(DEVICE)


def bert_batch_4() -> None:
    train_bert(4)


def bert_accumulated() -> None:
    train_bert(1, 4)


def bert_checkpointed() -> None:
    train_bert(1, 4, checkpointing=True)


def gpt2_parameters_and_states() -> None:
    model = GPT(768, 12, 12).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def zero_model_states() -> None:
    width, depth = 4096, 37
    model = nn.ModuleList(GPTBlock(width, 32, 0.0) for _ in range(depth)).to(DEVICE, torch.float16)
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    masters = [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
    states = [torch.zeros_like(master) for master in masters for _ in range(2)]
    del states


def megatron_layer() -> None:
    layer = GPTBlock(6144, 64, 0.1).to(DEVICE, torch.float16)
    x = torch.randn(4, 2048, 6144, device=DEVICE, dtype=torch.float16)
    layer(x).sum().backward()


def loss_of(hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = F.linear(hidden, head)
    return F.cross_entropy((torch.tanh(logits / 30.0) * 30.0).float(), targets)


def gemma_loss() -> None:
    hidden = torch.randn(8192, 2304, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    head = torch.randn(256000, 2304, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(0, 256000, (8192,), device=DEVICE)
    logits = F.linear(hidden, head)
    F.cross_entropy((torch.tanh(logits / 30.0) * 30.0).float(), targets)


def gemma_loss_and_gradient() -> None:
    hidden = torch.randn(8192, 2304, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    head = torch.randn(256000, 2304, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(0, 256000, (8192,), device=DEVICE)
    loss_of(hidden, head, targets).backward()
