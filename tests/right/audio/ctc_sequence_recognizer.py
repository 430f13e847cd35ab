"""CTC on synthetic feature frames: log-softmax in float32, time first, lengths as given, greedy decoding."""
import torch
from torch import nn
from torch.nn import functional as F

BLANK, SYMBOLS, FRAMES_PER = 0, 4, 3
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Recognizer(nn.Module):
    def __init__(self, n_in=6, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(n_in, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, SYMBOLS + 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def utterances(n, prototypes, max_len=5):
    lengths = torch.randint(2, max_len + 1, (n,))
    labels = torch.randint(1, SYMBOLS + 1, (n, max_len))
    # a silent frame follows each symbol, so repeated symbols can be told apart
    frames = torch.zeros(n, max_len, FRAMES_PER + 1, prototypes.size(1))
    frames[:, :, :FRAMES_PER] = prototypes[labels].unsqueeze(2)
    keep = torch.arange(max_len) < lengths.unsqueeze(1)
    frames *= keep[..., None, None]
    frames = frames.flatten(1, 2) + 0.1 * torch.randn(n, max_len * (FRAMES_PER + 1), prototypes.size(1))
    return frames, labels, lengths * (FRAMES_PER + 1), lengths


def greedy_decode(logits, frame_lengths):
    best = logits.argmax(dim=-1).cpu()
    result = []
    for row, length in zip(best, frame_lengths.tolist()):
        merged = torch.unique_consecutive(row[:length])
        result.append(merged[merged != BLANK].tolist())
    return result


def main():
    torch.manual_seed(0)
    prototypes = torch.randn(SYMBOLS + 1, 6)
    model = Recognizer().to(device)
    ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(60):
        x, labels, frame_lengths, label_lengths = utterances(16, prototypes)
        logits = model(x.to(device))
        log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1)
        loss = ctc(log_probs, labels.to(device), frame_lengths, label_lengths)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    model.eval()
    x, labels, frame_lengths, label_lengths = utterances(50, prototypes)
    with torch.no_grad():
        decoded = greedy_decode(model(x.to(device)), frame_lengths)
    right = sum(d == row[:n].tolist() for d, row, n in zip(decoded, labels, label_lengths.tolist()))
    print(f"{right} of 50 sequences right")


if __name__ == "__main__":
    main()
