# source: https://github.com/monniert/differentiable-blocksworld/issues/2
import argparse

import torch
from torch import nn


def cube_faces():
    quads = [(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (1, 2, 6, 5), (0, 3, 7, 4)]
    faces = []
    for a, b, c, d in quads:
        faces.append((a, b, c))
        faces.append((a, c, d))
    return torch.tensor(faces, dtype=torch.long)


class BlockScene(nn.Module):
    def __init__(self, n_blocks=6, opacity_noise=0.1, thresh=0.5):
        super().__init__()
        self.n_blocks = n_blocks
        self.opacity_noise = opacity_noise
        self.thresh = thresh
        self.register_buffer("faces", cube_faces())
        self.alpha_logit = nn.Parameter(torch.randn(n_blocks))
        self.S = nn.Parameter(torch.zeros(n_blocks, 3))
        self.T = nn.Parameter(torch.randn(n_blocks, 3) * 0.5)
        self.bkg = nn.Parameter(torch.rand(8, 3))

    @property
    def block_n_faces(self):
        return self.faces.shape[0]

    def get_opacities(self):
        logits = self.alpha_logit
        if self.training and self.opacity_noise > 0:
            logits = logits + self.opacity_noise * torch.randn_like(logits)
        return torch.sigmoid(logits)

    def visible(self):
        return self.get_opacities() > self.thresh

    def vertices(self):
        signs = [(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]
        base = torch.tensor(signs, device=self.T.device)
        return base[None] * self.S.exp()[:, None] + self.T[:, None]

    @torch.no_grad()
    def face_values(self, filter_transparent=True):
        val_blocks = torch.linspace(0, 1, self.n_blocks + 1, device=self.bkg.device)[1:]
        if filter_transparent:
            val_blocks = val_blocks[self.visible()]
        n_bkg = self.bkg.shape[0]
        bkg_values = self.bkg.new_zeros(n_bkg)
        return torch.cat([bkg_values, val_blocks.repeat_interleave(self.block_n_faces)])

    def overlap_penalty(self):
        centers = self.T
        dist = (centers[:, None] - centers[None]).square().sum(-1)
        radius = self.S.exp().mean(-1)
        reach = (radius[:, None] + radius[None]).square()
        inter = torch.relu(reach - dist)
        occ = self.get_opacities()
        weights = occ[:, None] * occ[None]
        return (inter * weights).triu(diagonal=1).sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    scene = BlockScene(args.blocks).to(device)
    opt = torch.optim.Adam(scene.parameters(), lr=1e-2)
    for _ in range(args.steps):
        loss = scene.overlap_penalty() + 1e-2 * scene.get_opacities().sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
    scene.eval()
    values = scene.face_values()
    print("loss", loss.item(), "faces to render", values.numel())


if __name__ == "__main__":
    main()
