# target: main
"""Spectral angle mapping of a hyperspectral scene against a library of minerals."""
import math

import torch
import torch.nn.functional as F

BANDS = 48
MINERALS = ["kaolinite", "calcite", "goethite", "alunite", "chlorite"]


def make_library(generator):
    wavelength = torch.linspace(0.4, 2.5, BANDS)
    rows = []
    for _ in MINERALS:
        centre = 0.6 + 1.6 * torch.rand(3, 1, generator=generator)
        depth = 0.2 + 0.5 * torch.rand(3, 1, generator=generator)
        width = 0.05 + 0.2 * torch.rand(3, 1, generator=generator)
        dips = depth * torch.exp(-((wavelength - centre) / width) ** 2)
        rows.append(1.2 - dips.sum(0))
    return torch.stack(rows)


def make_scene(library, batch, height, width, generator):
    truth = torch.randint(len(library), (batch, height, width), generator=generator)
    light = 0.5 + torch.rand(batch, height, width, 1, generator=generator)
    spectra = library[truth] * light
    spectra = spectra + 0.01 * torch.randn(spectra.shape, generator=generator)
    return spectra.permute(0, 3, 1, 2).contiguous(), truth


def to_pixels(cube):
    batch, bands, height, width = cube.shape
    return cube.permute(0, 2, 3, 1).reshape(batch * height * width, bands)


def spectral_angle(pixels, library):
    cosine = F.normalize(pixels, dim=1) @ F.normalize(library, dim=1).T
    return torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))


class AngleMapper:
    def __init__(self, library, max_angle=math.pi / 2):
        self.library = library
        self.max_angle = max_angle

    def __call__(self, cube):
        batch, _, height, width = cube.shape
        angle = spectral_angle(to_pixels(cube), self.library)
        best, label = angle.min(dim=1)
        label = torch.where(best < self.max_angle, label, torch.full_like(label, -1))
        return label.view(batch, height, width), best.view(batch, height, width)


def main():
    g = torch.Generator().manual_seed(5)
    library = make_library(g)
    cube, truth = make_scene(library, 2, 40, 36, g)
    mapper = AngleMapper(library)
    label, angle = mapper(cube)
    hit = (label == truth).float().mean().item()
    print(f"mean angle {angle.mean().item():.3f} rad, agreement {hit:.3f}")
    for i, name in enumerate(MINERALS):
        print(f"{name:10s} {(label == i).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
