# source: https://github.com/kan-bayashi/ParallelWaveGAN/issues/177
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class AudioMelDataset(Dataset):
    def __init__(self, n_utts, hop=16, frames=12, n_mel=8):
        g = torch.Generator().manual_seed(7)
        self.items = []
        for i in range(n_utts):
            mel = torch.randn(n_mel, frames + i % 5, generator=g)
            audio = torch.tanh(mel.mean(0).repeat_interleave(hop))
            self.items.append(("utt%03d" % i, audio, mel))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        return self.items[idx]


class Collater(object):
    def __init__(self, batch_max_frames=10, hop_size=16):
        self.batch_max_frames = batch_max_frames
        self.hop_size = hop_size

    def __call__(self, batch):
        ids, ys, cs = [], [], []
        for utt_id, x, c in batch:
            start = torch.randint(0, c.size(1) - self.batch_max_frames + 1, (1,)).item()
            cs.append(c[:, start:start + self.batch_max_frames])
            ys.append(x[start * self.hop_size:(start + self.batch_max_frames) * self.hop_size])
            ids.append(utt_id)
        return ids, torch.stack(cs), torch.stack(ys).unsqueeze(1)


class UpsampleNet(nn.Module):
    def __init__(self, n_mel=8, hop=16):
        super().__init__()
        self.hop = hop
        self.conv = nn.Sequential(nn.Conv1d(n_mel, 16, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv1d(16, 1, 3, padding=1))

    def forward(self, c):
        return torch.tanh(self.conv(F.interpolate(c, scale_factor=self.hop, mode="nearest")))


class Trainer(object):
    def __init__(self, epochs, data_loader, sampler, model, criterion, optimizer, config, device):
        self.epochs = epochs
        self.data_loader = data_loader
        self.sampler = sampler
        self.model = model
        self.criterion = criterion
        self.optimizer = optimizer
        self.config = config
        self.device = device
        self.steps = 0

    def run(self):
        while self.epochs < self.config["max_epochs"]:
            self._train_epoch()

    def _train_step(self, batch):
        _, c, y = batch
        loss = self.criterion(self.model(c.to(self.device)), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        return loss.item()

    def _train_epoch(self):
        seen, total = [], 0.0
        if self.sampler["train"] is not None:
            self.sampler["train"].set_epoch(self.epochs)
        for batch in self.data_loader["train"]:
            total += self._train_step(batch)
            seen.extend(batch[0])
        self.epochs += 1
        print("(Steps: %d) epoch %d loss %.4f first utterances %s"
              % (self.steps, self.epochs, total / len(self.data_loader["train"]), seen[:4]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", default=int(os.environ.get("LOCAL_RANK", 0)), type=int)
    parser.add_argument("--world-size", default=int(os.environ.get("WORLD_SIZE", 2)), type=int)
    args = parser.parse_args()
    args.distributed = args.world_size > 1
    torch.manual_seed(0)
    device = torch.device("cuda", args.rank) if torch.cuda.is_available() else torch.device("cpu")
    dataset = AudioMelDataset(32)
    sampler = None
    if args.distributed:
        sampler = DistributedSampler(dataset, num_replicas=args.world_size, rank=args.rank, shuffle=True)
    loader = DataLoader(dataset, batch_size=4, shuffle=sampler is None, sampler=sampler, collate_fn=Collater())
    model = UpsampleNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    trainer = Trainer(0, {"train": loader}, {"train": sampler}, model, nn.L1Loss(), optimizer, {"max_epochs": 3}, device)
    trainer.run()


if __name__ == "__main__":
    main()
