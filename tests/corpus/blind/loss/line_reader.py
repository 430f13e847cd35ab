# target: train_batch
# truth: reshape to (columns, batch, classes) reinterprets memory instead of swapping the axes, so ctc_loss sees columns
#   of different images interleaved; the loss and its gradients are silently wrong and reading accuracy stays poor.
"""CRNN reader for text-line crops (meter plates, serial numbers)."""
import torch
import torch.nn.functional as F
from torch import nn

BLANK = 0


class LineReader(nn.Module):
    """Images (batch, 1, 16, width) to per-column log probabilities.

    The output is batch first: (batch, columns, n_classes), with class 0 the CTC blank.
    """

    def __init__(self, n_classes, channels=24, hidden=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
        )
        self.rnn = nn.LSTM(channels * 4, hidden, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(2 * hidden, n_classes)

    def forward(self, images):
        maps = self.conv(images)
        columns = maps.permute(0, 3, 1, 2).flatten(2)
        hidden, _ = self.rnn(columns)
        return self.classify(hidden).log_softmax(dim=-1)


def to_time_major(log_probs):
    """(batch, columns, classes) -> (columns, batch, classes), as ctc_loss wants it."""
    batch, columns, classes = log_probs.shape
    return log_probs.reshape(columns, batch, classes)  # error: DG318


def transcript_loss(log_probs, targets, target_lengths):
    """targets: (batch, longest) padded class ids; target_lengths: (batch,)."""
    batch, columns, _ = log_probs.shape
    input_lengths = torch.full((batch,), columns, dtype=torch.long)
    return F.ctc_loss(
        to_time_major(log_probs),
        targets,
        input_lengths,
        target_lengths,
        blank=BLANK,
        zero_infinity=True,
    )


def train_batch(model, optimizer, images, targets, target_lengths):
    model.train()
    loss = transcript_loss(model(images), targets, target_lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def greedy_read(model, images):
    """Best-path decoding; returns a list of class id lists."""
    model.eval()
    lines = []
    for path in model(images).argmax(dim=-1).tolist():
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        lines.append([c for c in merged if c != BLANK])
    return lines
