/** Programs that the suites open. */

export const FAULT = "5 is outside [0, 5)";

/** A function that fails when it runs, and one that never ends. */
export const RUNNABLE = `import torch
import torch.nn.functional as F


# dry-run: logits=torch.randn(4, 5), target=torch.tensor([0, 1, 5, 2])
def loss(logits, target):
    shifted = logits - 1
    return F.cross_entropy(shifted, target)


# dry-run: steps=3
def endless(steps):
    while steps:
        steps = steps + 1
`;

/** Its fault is seen without running it. */
export const WRONG = `import torch


def activation(x):
    y = torch.exp(x.requires_grad_())
    y.clamp_(max=10)
    y.sum().backward()
`;

/** A run confirms its fault, and verifies the fix. */
export const MENDABLE = WRONG.replace("activation(x):", 'activation():\n    x = torch.randn(4, 3)');

/** Tells who ran it. */
export const WHO = `import torch


# dry-run: x=torch.randn(2, 3)
def double(x):
    return x * 2
`;
