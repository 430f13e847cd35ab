# target: PlateArchive.collect
# truth: cut returns a view of the full frame and the archive keeps it, so each stored 48x128 plate keeps its whole frame's storage alive (about 300 times the memory that the crops need); memory grows with every frame.
"""Collect crops of number plates from a camera for later reading."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F


@dataclass
class Camera:
    height: int = 1080
    width: int = 1920
    seed: int = 0
    generator: torch.Generator = field(init=False)

    def __post_init__(self):
        self.generator = torch.Generator().manual_seed(self.seed)

    def read(self):
        """One frame (3, height, width) as uint8, with a bright plate somewhere."""
        frame = torch.full((3, self.height, self.width), 40, dtype=torch.uint8)
        top = int(torch.randint(0, self.height - 48, (1,), generator=self.generator))
        left = int(torch.randint(0, self.width - 128, (1,), generator=self.generator))
        plate = torch.randint(180, 255, (3, 48, 128), generator=self.generator)
        frame[:, top:top + 48, left:left + 128] = plate.to(torch.uint8)
        return frame


class PlateFinder:
    def __init__(self, size=(48, 128), stride=8):
        self.size, self.stride = size, stride

    def __call__(self, frame):
        grey = frame[0, ::self.stride, ::self.stride].float()[None, None]
        window = tuple(s // self.stride for s in self.size)
        heat = F.avg_pool2d(grey, window, stride=1)[0, 0]
        best = int(heat.argmax())
        row, col = divmod(best, heat.shape[1])
        return row * self.stride, col * self.stride, heat.max().item()


class PlateArchive:
    def __init__(self, finder=None, minimum=90.0, limit=10000):
        self.finder = finder or PlateFinder()
        self.minimum = minimum
        self.limit = limit
        self.crops = []
        self.places = []

    def cut(self, frame, top, left):
        height, width = self.finder.size
        return frame[:, top:top + height, left:left + width]  # error: DG511

    def add(self, frame):
        top, left, brightness = self.finder(frame)
        if brightness < self.minimum or len(self.crops) >= self.limit:
            return False
        self.crops.append(self.cut(frame, top, left))
        self.places.append((top, left))
        return True

    def collect(self, camera=None, frames=60):
        camera = camera or Camera()
        for _ in range(frames):
            self.add(camera.read())
        return len(self.crops)

    def batch(self):
        return torch.stack(self.crops).float() / 255


if __name__ == "__main__":
    archive = PlateArchive()
    print(archive.collect(), tuple(archive.batch().shape))
