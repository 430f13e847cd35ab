# source: https://github.com/zalandoresearch/pytorch-vq-vae/issues/2
# target: ResidualStack.forward
# truth: the list of residual layers holds the same module several times, so all layers of the stack share one set of
#   weights and the model is smaller than configured
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizerEMA(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost, decay=0.99, epsilon=1e-5):
        super().__init__()
        self._embedding_dim = embedding_dim
        self._num_embeddings = num_embeddings
        self._commitment_cost = commitment_cost
        self._decay = decay
        self._epsilon = epsilon
        self.register_buffer("_embedding", torch.randn(num_embeddings, embedding_dim))
        self.register_buffer("_ema_cluster_size", torch.zeros(num_embeddings))
        self.register_buffer("_ema_w", self._embedding.clone())

    @torch.no_grad()
    def _update(self, flat_input, encodings):
        size = self._ema_cluster_size.mul_(self._decay).add_(encodings.sum(0), alpha=1 - self._decay)
        n = size.sum()
        smoothed = (size + self._epsilon) / (n + self._num_embeddings * self._epsilon) * n
        self._ema_w.mul_(self._decay).add_(encodings.t() @ flat_input, alpha=1 - self._decay)
        self._embedding.copy_(self._ema_w / smoothed.unsqueeze(1))

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        flat_input = inputs.view(-1, self._embedding_dim)
        indices = torch.cdist(flat_input.detach(), self._embedding).argmin(dim=1)
        encodings = F.one_hot(indices, self._num_embeddings).to(flat_input.dtype)
        quantized = self._embedding[indices].view(inputs.shape)
        if self.training:
            self._update(flat_input.detach(), encodings)
        loss = self._commitment_cost * F.mse_loss(quantized.detach(), inputs)
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = encodings.mean(dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity


class Residual(nn.Module):
    def __init__(self, in_channels, num_hiddens, num_residual_hiddens):
        super().__init__()
        self._block = nn.Sequential(
            nn.ReLU(), nn.Conv2d(in_channels, num_residual_hiddens, 3, padding=1, bias=False),
            nn.ReLU(), nn.Conv2d(num_residual_hiddens, num_hiddens, 1, bias=False))

    def forward(self, x):
        return x + self._block(x)


class ResidualStack(nn.Module):
    def __init__(self, in_channels, num_hiddens, num_residual_layers, num_residual_hiddens):
        super().__init__()
        self._num_residual_layers = num_residual_layers
        self._layers = nn.ModuleList([Residual(in_channels, num_hiddens, num_residual_hiddens)] * num_residual_layers)  # culprit

    def forward(self, x):
        for i in range(self._num_residual_layers):
            x = self._layers[i](x)
        return F.relu(x)


class Model(nn.Module):
    def __init__(self, num_hiddens=16, num_residual_layers=2, num_residual_hiddens=8, num_embeddings=16,
                 embedding_dim=8, commitment_cost=0.25):
        super().__init__()
        self._encoder = nn.Sequential(
            nn.Conv2d(3, num_hiddens // 2, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(num_hiddens // 2, num_hiddens, 4, stride=2, padding=1),
            ResidualStack(num_hiddens, num_hiddens, num_residual_layers, num_residual_hiddens),
            nn.Conv2d(num_hiddens, embedding_dim, 1))
        self._vq = VectorQuantizerEMA(num_embeddings, embedding_dim, commitment_cost)
        self._decoder = nn.Sequential(
            nn.Conv2d(embedding_dim, num_hiddens, 3, padding=1),
            ResidualStack(num_hiddens, num_hiddens, num_residual_layers, num_residual_hiddens),
            nn.ConvTranspose2d(num_hiddens, num_hiddens // 2, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(num_hiddens // 2, 3, 4, stride=2, padding=1))

    def forward(self, x):
        vq_loss, quantized, perplexity = self._vq(self._encoder(x))
        return vq_loss, self._decoder(quantized), perplexity


def training_step(model, optimizer, data, data_variance):
    optimizer.zero_grad()
    vq_loss, data_recon, perplexity = model(data)
    recon_error = F.mse_loss(data_recon, data) / data_variance
    (recon_error + vq_loss).backward()
    optimizer.step()
    return recon_error.item(), perplexity.item()
