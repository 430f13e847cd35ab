# source: https://github.com/york135/CTC_CE_for_AST/issues/3
# target: script
# truth: the onset loss is normalised by the sum of the frame weights; a clip without any labelled frame has weight
#   sum 0, the loss is 0/0 = NaN and after that step all parameters are NaN
import torch
import torch.nn as nn
import torch.optim as optim


class TranscriptionNet(nn.Module):
    """Frame-wise onset and pitch estimation of a singing voice."""

    def __init__(self, n_bins=24, hidden=24, pitch_class=13):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_bins, hidden, 3, padding=1), nn.BatchNorm1d(hidden), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.onset = nn.Linear(hidden * 2, 1)
        self.pitch = nn.Linear(hidden * 2, pitch_class)

    def forward(self, x):
        h = self.conv(x).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.onset(h).squeeze(-1), self.pitch(h)


def smooth_labels(notes, n_frames, pitch_class=13):
    """notes: (onset frame, offset frame, pitch). Returns targets and the weight of each frame."""
    onset = torch.zeros(n_frames)
    weight = torch.zeros(n_frames)
    pitch = torch.zeros(n_frames, dtype=torch.long)
    for start, end, p in notes:
        onset[start] = 1.0
        if start + 1 < n_frames:
            onset[start + 1] = 0.5
        weight[max(0, start - 2):end] = 1.0
        pitch[start:end] = p % (pitch_class - 1) + 1
    return onset, weight, pitch


class MelodyLoss:
    def __init__(self, onset_pos_weight=3.0, pitch_coeff=0.5):
        self.onset_criterion = nn.BCEWithLogitsLoss(reduction="none", pos_weight=torch.tensor([onset_pos_weight]))
        self.pitch_criterion = nn.CrossEntropyLoss()
        self.pitch_coeff = pitch_coeff

    def __call__(self, onset_logits, pitch_logits, onset_prob, on_weight, pitch):
        frame_loss = self.onset_criterion(onset_logits, onset_prob)
        onset_loss = torch.dot(frame_loss.flatten(), on_weight.flatten()) / torch.sum(on_weight)  # culprit
        pitch_loss = self.pitch_criterion(pitch_logits.flatten(0, 1), pitch.flatten())
        return onset_loss + self.pitch_coeff * pitch_loss, (onset_loss.item(), pitch_loss.item())


def make_songs(n_frames=30):
    annotation = [
        [(2, 8, 60), (10, 15, 62), (17, 27, 64)],
        [(0, 12, 67), (14, 22, 65)],
        [],
        [(5, 25, 59)],
    ]
    for notes in annotation:
        feature = torch.rand(1, 24, n_frames)
        for start, end, p in notes:
            feature[0, p % 24, start:end] += 1.0
        yield feature, tuple(t.unsqueeze(0) for t in smooth_labels(notes, n_frames))


def train(model, songs, optimizer, criterion, epochs=3):
    for epoch in range(epochs):
        model.train()
        total, parts = 0.0, [0.0, 0.0]
        for feature, (onset_prob, on_weight, pitch) in songs:
            onset_logits, pitch_logits = model(feature)
            loss, split = criterion(onset_logits, pitch_logits, onset_prob, on_weight, pitch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            parts = [a + b for a, b in zip(parts, split)]
        print(f"| epoch {epoch + 1} | loss {total / len(songs):.4f} | split_train_loss0 {parts[0] / len(songs):.4f}"
              f" | split_train_loss1 {parts[1] / len(songs):.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    net = TranscriptionNet()
    train(net, list(make_songs()), optim.Adam(net.parameters(), lr=1e-3), MelodyLoss())
