"""Forty-four programs, a training step or two each, for forecasts to be compared with runs that have the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm
import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torchvision import models as tv

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Make = Callable[[Any], torch.optim.Optimizer]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-4)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4)


def fit(model: nn.Module, make: Make, loss_of: Callable[[nn.Module], torch.Tensor], amp: bool = False) -> None:
    """Take two steps."""
    model = model.to(DEVICE)
    optimizer = make(model.parameters())
    for _ in range(2):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=amp):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def classify(model: nn.Module, make: Make, size: int = 64, batch: int = 4, amp: bool = False) -> None:
    """Train on images."""

    def loss_of(net: nn.Module) -> torch.Tensor:
        images = torch.randn(batch, 3, size, size).to(DEVICE)
        labels = torch.randint(0, 10, (batch,)).to(DEVICE)
        return F.cross_entropy(net(images), labels)

    fit(model, make, loss_of, amp)


def tv_resnet18() -> None:
    classify(tv.resnet18(num_classes=10), sgd)


def tv_resnet50_amp() -> None:
    classify(tv.resnet50(num_classes=10), sgd, amp=True)


def tv_vgg11_bn() -> None:
    classify(tv.vgg11_bn(num_classes=10), sgd, size=32, batch=2)


def tv_mobilenet_v3() -> None:
    classify(tv.mobilenet_v3_small(num_classes=10), adam)


def tv_efficientnet_b0() -> None:
    classify(tv.efficientnet_b0(num_classes=10), adamw)


def tv_densenet121() -> None:
    classify(tv.densenet121(num_classes=10), adam)


def tv_densenet121_checkpoints() -> None:
    classify(tv.densenet121(num_classes=10, memory_efficient=True), adam)


def tv_convnext_tiny() -> None:
    classify(tv.convnext_tiny(num_classes=10), adamw)


def tv_swin_t() -> None:
    classify(tv.swin_t(num_classes=10), adamw)


def tv_vit_b_32_amp() -> None:
    classify(tv.vit_b_32(num_classes=10, image_size=64), adamw, amp=True)


def tv_regnet() -> None:
    classify(tv.regnet_y_400mf(num_classes=10), sgd)


def tv_shufflenet() -> None:
    classify(tv.shufflenet_v2_x1_0(num_classes=10), adam)


def tv_squeezenet() -> None:
    classify(tv.squeezenet1_1(num_classes=10), adam)


def tv_fcn_segmentation() -> None:
    net = tv.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=5)

    def loss_of(model: nn.Module) -> torch.Tensor:
        images = torch.randn(2, 3, 64, 64).to(DEVICE)
        return F.cross_entropy(model(images)["out"], torch.randint(0, 5, (2, 64, 64)).to(DEVICE))

    fit(net, adam, loss_of)


def timm_resnetv2() -> None:
    classify(timm.create_model("resnetv2_50", num_classes=10), sgd)


def timm_efficientvit() -> None:
    classify(timm.create_model("efficientvit_b0", num_classes=10), adamw)


def timm_mobilevit_amp() -> None:
    classify(timm.create_model("mobilevit_xs", num_classes=10), adamw, amp=True)


def timm_maxvit() -> None:
    classify(timm.create_model("maxvit_nano_rw_256", num_classes=10, img_size=64), adamw)


def timm_mixer() -> None:
    classify(timm.create_model("mixer_s32_224", num_classes=10, img_size=64), adam)


def timm_deit_checkpoints() -> None:
    net = timm.create_model("deit_tiny_patch16_224", num_classes=10, img_size=64)
    net.set_grad_checkpointing(True)
    classify(net, adamw)


def timm_regnetz() -> None:
    classify(timm.create_model("regnetz_b16", num_classes=10), sgd)


def timm_poolformer() -> None:
    classify(timm.create_model("poolformer_s12", num_classes=10), adamw)


def language(model: nn.Module, make: Make, words: int, amp: bool = False, length: int = 48) -> None:
    """Train on words to be predicted."""

    def loss_of(net: nn.Module) -> torch.Tensor:
        ids = torch.randint(0, words, (2, length)).to(DEVICE)
        return net(input_ids=ids, labels=ids).loss

    fit(model, make, loss_of, amp)


SMALL = {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}


def hf_gpt2() -> None:
    language(hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=1000, n_embd=128, n_layer=3, n_head=4)), adamw, 1000)


def hf_gpt2_checkpoints() -> None:
    net = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=1000, n_embd=128, n_layer=3, n_head=4))
    net.gradient_checkpointing_enable()
    language(net.train(), adamw, 1000)


def hf_bert() -> None:
    language(hf.BertForMaskedLM(hf.BertConfig(**SMALL, intermediate_size=256)), adamw, 1000)


def hf_roberta_amp() -> None:
    language(hf.RobertaForMaskedLM(hf.RobertaConfig(**SMALL, intermediate_size=256)), adam, 1000, amp=True)


def hf_llama() -> None:
    config = hf.LlamaConfig(**SMALL, intermediate_size=256, num_key_value_heads=2)
    language(hf.LlamaForCausalLM(config), adamw, 1000)


def hf_llama_amp() -> None:
    config = hf.LlamaConfig(**SMALL, intermediate_size=256, attn_implementation="eager")
    language(hf.LlamaForCausalLM(config), sgd, 1000, amp=True)


def hf_qwen2() -> None:
    config = hf.Qwen2Config(**SMALL, intermediate_size=256, num_key_value_heads=2)
    language(hf.Qwen2ForCausalLM(config), adamw, 1000)


def hf_opt() -> None:
    config = hf.OPTConfig(**SMALL, ffn_dim=256, word_embed_proj_dim=128)
    language(hf.OPTForCausalLM(config), adam, 1000)


def hf_t5() -> None:
    sizes = {"d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4}
    config = hf.T5Config(vocab_size=1000, decoder_start_token_id=0, pad_token_id=0, **sizes)
    language(hf.T5ForConditionalGeneration(config), adamw, 1000)


def hf_electra() -> None:
    language(hf.ElectraForMaskedLM(hf.ElectraConfig(**SMALL, intermediate_size=256)), sgd, 1000)


def hf_bloom() -> None:
    language(hf.BloomForCausalLM(hf.BloomConfig(vocab_size=1000, hidden_size=128, n_layer=2, n_head=4)), adam, 1000)


def hf_phi_amp() -> None:
    language(hf.PhiForCausalLM(hf.PhiConfig(**SMALL, intermediate_size=256)), adamw, 1000, amp=True)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(500, 64), nn.Linear(128, 500)
        self.layers = kind(64, 128, num_layers=2, batch_first=True, dropout=0.1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(ids))[0])


def read(model: nn.Module, make: Make, amp: bool = False) -> None:
    """Train a model of logits on words to be predicted."""

    def loss_of(net: nn.Module) -> torch.Tensor:
        ids = torch.randint(0, 500, (4, 33)).to(DEVICE)
        return F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    fit(model, make, loss_of, amp)


def lstm() -> None:
    read(Recurrent(nn.LSTM), adam)


def gru() -> None:
    read(Recurrent(nn.GRU), sgd)


class UNet(nn.Module):
    def __init__(self, wide: int = 16) -> None:
        super().__init__()
        self.down = nn.ModuleList([pair(3, wide), pair(wide, 2 * wide), pair(2 * wide, 4 * wide)])
        self.up = nn.ModuleList([pair(6 * wide, 2 * wide), pair(3 * wide, wide)])
        self.head = nn.Conv2d(wide, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for block in self.down:
            x = block(x if not kept else F.max_pool2d(x, 2))
            kept.append(x)
        for block, beside in zip(self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0), beside], 1))
        return self.head(x)


def pair(given: int, made: int) -> nn.Module:
    layers = [nn.Conv2d(given, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(made, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU())


def segment(make: Make, amp: bool = False) -> None:
    """Train a U-Net."""

    def loss_of(net: nn.Module) -> torch.Tensor:
        images = torch.randn(2, 3, 96, 96).to(DEVICE)
        return F.cross_entropy(net(images), torch.randint(0, 4, (2, 96, 96)).to(DEVICE))

    fit(UNet(), make, loss_of, amp)


def unet() -> None:
    segment(adam)


def unet_amp() -> None:
    segment(adamw, amp=True)


class Block(nn.Module):
    def __init__(self, wide: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))
        self.first, self.second = nn.LayerNorm(wide), nn.LayerNorm(wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in self.qkv(self.first(x)).split(c, 2))
        weights = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = weights.masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):
    def __init__(self, checkpoints: bool = False) -> None:
        super().__init__()
        self.checkpoints, self.words = checkpoints, nn.Embedding(500, 128)
        self.blocks, self.head = nn.ModuleList([Block() for _ in range(4)]), nn.Linear(128, 500)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(x)


def gpt() -> None:
    read(Gpt(), adamw)


def gpt_amp() -> None:
    read(Gpt(), adam, amp=True)


def gpt_checkpoints() -> None:
    read(Gpt(checkpoints=True), sgd)


def gpt_fused_adam() -> None:
    read(Gpt(), lambda parameters: torch.optim.AdamW(parameters, fused=True))


def autoencoder() -> None:
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 16), nn.ReLU(), nn.Linear(16, 784)]

    def loss_of(net: nn.Module) -> torch.Tensor:
        images = torch.rand(64, 784).to(DEVICE)
        return F.mse_loss(net(images), images)

    fit(nn.Sequential(*layers), adam, loss_of)
