# target: factorize_data
# source: https://github.com/ulissigroup/amptorch/issues/12
# truth: none, the repaired twin of fingerprint_block_cat.py
import time
from collections import namedtuple

import torch
import torch.nn as nn

Image = namedtuple("Image", "positions energy")


def make_image(n_atoms, gen):
    pos = torch.rand(n_atoms, 3, generator=gen) * n_atoms ** (1 / 3) * 2.0
    energy = -torch.exp(-(pos - pos.mean(0)).norm(dim=1) / 4).sum()
    return Image(pos, energy)


def symmetry_functions(pos, n_feat=12):
    """(n_atoms, n_feat) radial fingerprints"""
    d = torch.cdist(pos, pos)
    eta = torch.linspace(0.05, 2.0, n_feat)
    return torch.exp(-eta * d.unsqueeze(-1) ** 2).sum(1)


def finger_primes(pos, fp):
    """per atom: rows of the (sparse) derivative block, made up but of the right size"""
    for k in range(pos.size(0)):
        yield (fp[k].unsqueeze(1) * pos[k].unsqueeze(0)).repeat(24, 1)


def factorize_data(images):
    fingerprints, energies, natoms = [], [], []
    fprimes = []
    for image in images:
        fp = symmetry_functions(image.positions)
        fingerprints.append(fp)
        energies.append(image.energy)
        natoms.append(len(fp))
        for block in finger_primes(image.positions, fp):
            fprimes.append(block)
    return torch.cat(fingerprints), torch.cat(fprimes), torch.stack(energies), torch.tensor(natoms)


class BPNN(nn.Module):
    def __init__(self, n_feat=12, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_feat, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, fp, natoms):
        image_of = torch.repeat_interleave(torch.arange(len(natoms)), natoms)
        return torch.zeros(len(natoms)).index_add(0, image_of, self.net(fp).squeeze(1))


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    images = [make_image(40, gen) for _ in range(40)]
    start = time.perf_counter()
    fp, fprimes, energies, natoms = factorize_data(images)
    print(f"collated {len(fp)} atoms, {len(fprimes)} derivative rows in {time.perf_counter() - start:.2f} s")
    fp = (fp - fp.mean(0)) / fp.std(0)
    target = (energies - energies.mean()) / energies.std()
    model = BPNN()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(100):
        loss = (model(fp, natoms) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"energy mse {loss.item():.4f}")


if __name__ == "__main__":
    main()
