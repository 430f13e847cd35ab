# source: https://github.com/ZiqiaoPeng/DualTalk/issues/9
# target: trainer
# truth: zero_grad runs before every backward although steps happen only every gradient_accumulation_steps batches;
#   each update uses the last micro-batch alone, the accumulated gradients are thrown away
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class DualSpeakerDataset(Dataset):
    def __init__(self, n, frames=20, audio_dim=12, blend_dim=6, seed=0):
        g = torch.Generator().manual_seed(seed)
        mix_a = torch.randn(audio_dim, blend_dim, generator=g) / audio_dim ** 0.5
        mix_b = torch.randn(audio_dim, blend_dim, generator=g) / audio_dim ** 0.5
        self.audio_1 = torch.randn(n, frames, audio_dim, generator=g)
        self.audio_2 = torch.randn(n, frames, audio_dim, generator=g)
        self.blend_1 = self.audio_1 @ mix_a + 0.3 * self.audio_2 @ mix_b
        self.blend_2 = self.audio_2 @ mix_a + 0.3 * self.audio_1 @ mix_b

    def __len__(self):
        return len(self.audio_1)

    def __getitem__(self, i):
        return self.audio_1[i], self.audio_2[i], self.blend_1[i], self.blend_2[i]


class DualTalkModel(nn.Module):
    def __init__(self, audio_dim=12, blend_dim=6, dim=48):
        super().__init__()
        self.audio_encoder = nn.GRU(audio_dim, dim, batch_first=True, bidirectional=True)
        self.cross = nn.MultiheadAttention(2 * dim, 4, batch_first=True)
        self.decoder = nn.Linear(2 * dim, blend_dim)

    def forward(self, audio_1, audio_2):
        h1, _ = self.audio_encoder(audio_1)
        h2, _ = self.audio_encoder(audio_2)
        ctx, _ = self.cross(h1, h2, h2, need_weights=False)
        return self.decoder(h1 + ctx)


def trainer(args, train_loader, dev_loader, model, optimizer, criterion, epoch=10):
    history = []
    for e in range(epoch + 1):
        loss_log = []
        model.train()
        for i, (audio_1, audio_2, blend_1, blend_2) in enumerate(train_loader, start=1):
            audio_1, audio_2 = audio_1.to(args.device), audio_2.to(args.device)
            blend_1, blend_2 = blend_1.to(args.device), blend_2.to(args.device)
            pred_1, pred_2 = model(audio_1, audio_2), model(audio_2, audio_1)
            velocity = criterion(pred_1[:, 1:] - pred_1[:, :-1], blend_1[:, 1:] - blend_1[:, :-1])
            loss = criterion(pred_1, blend_1) + criterion(pred_2, blend_2) + args.w_vel * velocity
            loss = loss / args.gradient_accumulation_steps
            optimizer.zero_grad()  # culprit
            loss.backward()
            loss_log.append(loss.item() * args.gradient_accumulation_steps)
            if i % args.gradient_accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()

        model.eval()
        with torch.no_grad():
            valid = [criterion(model(a1.to(args.device), a2.to(args.device)), b1.to(args.device)).item()
                     for a1, a2, b1, _ in dev_loader]
        history.append(sum(valid) / len(valid))
        print("Epoch {:02d} TRAIN LOSS: {:.5f} VALID: {:.5f}".format(e, sum(loss_log) / len(loss_log), history[-1]))
    return history


def main():
    parser = argparse.ArgumentParser(description="dual speaker talking head, small scale")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--max_epoch", type=int, default=3)
    parser.add_argument("--w_vel", type=float, default=0.5)
    parser.add_argument("--device", type=str, default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    train_loader = DataLoader(DualSpeakerDataset(64), batch_size=4, shuffle=True)
    dev_loader = DataLoader(DualSpeakerDataset(16), batch_size=8)
    model = DualTalkModel().to(args.device)
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=args.lr)
    trainer(args, train_loader, dev_loader, model, optimizer, nn.MSELoss(), epoch=args.max_epoch)


if __name__ == "__main__":
    main()
