# source: https://github.com/ctallec/world-models/issues/10
# target: MDRNN.forward
# truth: the log-weights of the Gaussian mixture are normalised over the batch dimension instead of over the mixture
#   components; they do not sum to one, and the likelihood of a sample depends on the other samples of the batch
"""Mixture density recurrent network that models the latent dynamics of an environment."""
import torch
import torch.nn as nn
import torch.nn.functional as f
from torch.distributions.normal import Normal


def gmm_loss(batch, mus, sigmas, logpi, reduce=True):
    """Negative log-likelihood of batch [..., fs] under mixtures mus, sigmas [..., gs, fs], logpi [..., gs]."""
    batch = batch.unsqueeze(-2)
    normal_dist = Normal(mus, sigmas)
    g_log_probs = normal_dist.log_prob(batch)
    g_log_probs = logpi + torch.sum(g_log_probs, dim=-1)
    max_log_probs = torch.max(g_log_probs, dim=-1, keepdim=True)[0]
    g_log_probs = g_log_probs - max_log_probs
    probs = torch.sum(torch.exp(g_log_probs), dim=-1)
    log_prob = max_log_probs.squeeze(-1) + torch.log(probs)
    return -torch.mean(log_prob) if reduce else -log_prob


class _MDRNNBase(nn.Module):
    def __init__(self, latents, actions, hiddens, gaussians):
        super().__init__()
        self.latents = latents
        self.actions = actions
        self.hiddens = hiddens
        self.gaussians = gaussians
        self.gmm_linear = nn.Linear(hiddens, (2 * latents + 1) * gaussians + 2)

    def forward(self, *inputs):
        raise NotImplementedError


class MDRNN(_MDRNNBase):
    """Multi-step forward on sequences of shape (seq_len, batch, ...)."""

    def __init__(self, latents, actions, hiddens, gaussians):
        super().__init__(latents, actions, hiddens, gaussians)
        self.rnn = nn.LSTM(latents + actions, hiddens)

    def forward(self, actions, latents):
        seq_len, bs = actions.size(0), actions.size(1)
        ins = torch.cat([actions, latents], dim=-1)
        outs, _ = self.rnn(ins)
        gmm_outs = self.gmm_linear(outs)

        stride = self.gaussians * self.latents
        mus = gmm_outs[:, :, :stride]
        mus = mus.view(seq_len, bs, self.gaussians, self.latents)
        sigmas = gmm_outs[:, :, stride:2 * stride]
        sigmas = sigmas.view(seq_len, bs, self.gaussians, self.latents)
        sigmas = torch.exp(sigmas)
        pi = gmm_outs[:, :, 2 * stride:2 * stride + self.gaussians]
        pi = pi.view(seq_len, bs, self.gaussians)
        logpi = f.log_softmax(pi, dim=-2)  # culprit

        rs = gmm_outs[:, :, -2]
        ds = gmm_outs[:, :, -1]
        return mus, sigmas, logpi, rs, ds


def get_loss(mdrnn, latent_obs, action, reward, terminal, latent_next_obs, include_reward=True):
    """Inputs are batch first, as they come from the data loader."""
    latent_obs, action, reward, terminal, latent_next_obs = [
        arr.transpose(1, 0) for arr in [latent_obs, action, reward, terminal, latent_next_obs]]
    mus, sigmas, logpi, rs, ds = mdrnn(action, latent_obs)
    gmm = gmm_loss(latent_next_obs, mus, sigmas, logpi)
    bce = f.binary_cross_entropy_with_logits(ds, terminal)
    if include_reward:
        mse = f.mse_loss(rs, reward)
        scale = mdrnn.latents + 2
    else:
        mse = torch.zeros((), device=gmm.device)
        scale = mdrnn.latents + 1
    return dict(gmm=gmm, bce=bce, mse=mse, loss=(gmm + bce + mse) / scale)


def train_epoch(mdrnn, optimizer, batches):
    mdrnn.train()
    totals = {}
    for batch in batches:
        losses = get_loss(mdrnn, *batch)
        optimizer.zero_grad()
        losses["loss"].backward()
        optimizer.step()
        for key, value in losses.items():
            totals[key] = totals.get(key, 0.0) + value.item()
    return {key: value / len(batches) for key, value in totals.items()}
