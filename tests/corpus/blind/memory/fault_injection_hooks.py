# target: run_campaign
# source: https://github.com/fffasttime/MRFI/pull/5
# truth: every trial registers forward hooks on the shared model and never calls close(); hooks (and the observers they hold,
#   with recorded activations) are never removed, so memory and time per trial grow, and old faults stay active in later trials.
import torch
import torch.nn as nn


class ActivationObserver:
    def __init__(self, name):
        self.name = name
        self.values = []

    def update(self, out):
        self.values.append(out.detach().clone())

    def mean_abs(self):
        return torch.cat([v.flatten() for v in self.values]).abs().mean().item()


class Injector:
    """Wraps a model: multiplies one randomly chosen neuron of a layer and records activations."""

    def __init__(self, model, layer_name, factor, gen):
        self.model = model
        self.layer_name = layer_name
        self.factor = factor
        self.gen = gen
        self.observers = {}
        self.handles = []
        self._add_hooks()

    def _add_hooks(self):
        for name, module in self.model.named_modules():
            if not isinstance(module, (nn.Linear, nn.Conv2d)):
                continue
            self.observers[name] = ActivationObserver(name)
            if name == self.layer_name:
                self.handles.append(module.register_forward_hook(self._inject))
            self.handles.append(module.register_forward_hook(self._observe(name)))

    def _inject(self, module, inputs, output):
        k = int(torch.randint(output.size(1), (1,), generator=self.gen))
        output = output.clone()
        output[:, k] *= self.factor
        return output

    def _observe(self, name):
        def hook(module, inputs, output):
            self.observers[name].update(output)
        return hook

    def close(self):
        for h in self.handles:
            h.remove()
        self.handles.clear()
        self.observers.clear()

    @torch.no_grad()
    def __call__(self, x):
        return self.model(x)


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 10),
    ).eval()


def run_trial(model, images, clean, layer, factor, gen):
    injector = Injector(model, layer, factor, gen)
    faulty = injector(images).argmax(1)
    scale = injector.observers[layer].mean_abs()
    return (faulty != clean).float().mean().item(), scale  # error: DG510


def run_campaign(trials=60, layer="3", factor=30.0, seed=0):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(seed)
    model, images = small_cnn(), torch.randn(32, 1, 16, 16)
    with torch.no_grad():
        clean = model(images).argmax(1)
    rates = []
    for t in range(trials):
        changed, scale = run_trial(model, images, clean, layer, factor, gen)
        rates.append(changed)
        if t % 20 == 19:
            print(f"trial {t + 1}: changed {changed:.3f} activation scale {scale:.3g}")
    return sum(rates) / len(rates)


if __name__ == "__main__":
    print("mean change rate", round(run_campaign(), 3))
