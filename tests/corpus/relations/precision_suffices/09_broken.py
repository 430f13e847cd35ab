import math
from typing import Optional

import torch
import torch.nn as nn

EARTH_RADIUS_KM = 6371.0088


def great_circle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Distance in kilometres between points given as degrees (lat, lon).

    Args:
        a: (..., 2) tensor.
        b: (..., 2) tensor that broadcasts against ``a``.
    """
    lat_a, lat_b = torch.deg2rad(a[..., 0]), torch.deg2rad(b[..., 0])
    lon = torch.deg2rad(b[..., 1] - a[..., 1])
    cosine = torch.sin(lat_a) * torch.sin(lat_b) + torch.cos(lat_a) * torch.cos(lat_b) * torch.cos(lon)
    return EARTH_RADIUS_KM * torch.acos(cosine.clamp(-1.0, 1.0))


class CheckInRanker(nn.Module):
    """Ranks candidate places by taste and by distance from the user.

    Args:
        places: number of places.
        dim: size of the embeddings.
        reach: distance in kilometres over which interest falls by 1/e.
    """

    def __init__(self, places: int, dim: int = 16, reach: float = 1.0):
        super().__init__()
        self.place = nn.Embedding(places, dim)
        self.taste = nn.Linear(dim, dim)
        self.log_reach = nn.Parameter(torch.tensor(math.log(reach)))

    def forward(self, user: torch.Tensor, where: torch.Tensor, candidates: torch.Tensor,
                locations: torch.Tensor, open_now: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Scores (batch, candidates) for user vectors (batch, dim)."""
        taste = torch.einsum("bd,bcd->bc", self.taste(user), self.place(candidates))
        distance = great_circle(where.unsqueeze(1), locations)
        score = taste - distance / self.log_reach.exp()
        if open_now is not None:
            score = score.masked_fill(~open_now, -1e4)
        return score
