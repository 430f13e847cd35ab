"""A loop that knows nothing about the model."""
import torch

from acme.layers.gated import parameter_norm


class Loop:
    def __init__(self, model, optimizer, loss_fn, every=25):
        self.model, self.optimizer, self.loss_fn, self.every = model, optimizer, loss_fn, every

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run(self, batches):
        self.model.train()
        for i, (x, y) in enumerate(batches):
            loss = self.step(x, y)
            if i % self.every == 0:
                print(f"step {i}: loss {loss.item():.4f}, weights {parameter_norm(self.model):.2f}")

    def evaluate(self, x, y):
        self.model.eval()
        with torch.no_grad():
            return self.loss_fn(self.model(x), y).item()
