# source: https://github.com/jeshraghian/snntorch/pull/188
"""Losses over recorded spikes / membrane potentials, shape (time, batch, classes)."""
import torch
import torch.nn.functional as F


class LossFunctions:
    def __init__(self, reduction="mean", weight=None):
        if reduction not in ("mean", "none"):
            raise ValueError(f"unsupported reduction {reduction!r}")
        self.reduction = reduction
        self.weight = weight

    def _prediction_check(self, recorded):
        device = recorded.device
        num_steps = recorded.size(0)
        num_outputs = recorded.size(-1)
        return device, num_steps, num_outputs

    def _reduce(self, loss):
        return loss.mean() if self.reduction == "mean" else loss


class ce_rate_loss(LossFunctions):
    """Cross entropy of every time step, averaged over time."""

    def __call__(self, spk_out, targets):
        _, num_steps, _ = self._prediction_check(spk_out)
        log_p = F.log_softmax(spk_out, dim=-1)
        per_step = [F.nll_loss(log_p[t], targets, weight=self.weight, reduction="none") for t in range(num_steps)]
        return self._reduce(torch.stack(per_step).mean(0))


class mse_count_loss(LossFunctions):
    def __init__(self, correct_rate=1.0, incorrect_rate=0.0, **kwargs):
        super().__init__(**kwargs)
        self.correct_rate = correct_rate
        self.incorrect_rate = incorrect_rate

    def __call__(self, spk_out, targets):
        _, num_steps, num_outputs = self._prediction_check(spk_out)
        hot = F.one_hot(targets, num_outputs).to(spk_out.dtype)
        want = hot * self.correct_rate * num_steps + (1 - hot) * self.incorrect_rate * num_steps
        loss = F.mse_loss(spk_out.sum(0), want, reduction="none").mean(-1)
        return self._reduce(loss / num_steps)


class mse_membrane_loss(LossFunctions):
    """Pushes the potential of the right class to ``on_target`` and the others to ``off_target``."""

    def __init__(self, time_var_targets=False, on_target=1.0, off_target=0.0, **kwargs):
        super().__init__(**kwargs)
        self.time_var_targets = time_var_targets
        self.on_target = on_target
        self.off_target = off_target

    def _encode(self, targets, num_outputs, device, dtype):
        levels = torch.full((*targets.shape, num_outputs), self.off_target, device=device, dtype=dtype)
        return levels.scatter_(-1, targets.unsqueeze(-1), self.on_target)

    def __call__(self, mem_out, targets):
        device, num_steps, num_outputs = self._prediction_check(mem_out)
        spiking_targets = self._encode(targets, num_outputs, device, mem_out.dtype)
        loss = mem_out.new_zeros(mem_out.size(1))
        for step in range(num_steps):
            want = spiking_targets[step] if self.time_var_targets else spiking_targets
            loss = loss + F.mse_loss(mem_out[step], want, reduction="none").mean(-1)
        return self._reduce(loss / num_steps)
