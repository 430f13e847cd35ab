from typing import Any, Dict, List, Sequence, Tuple

import torch
import torch.nn as nn


class EntityEmbedding(nn.Module):
    """Embedding of entity names; rows are handed out at first sight.

    Args:
        capacity: most names that can be held.
        dim: size of the embeddings.
    """

    def __init__(self, capacity: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(capacity, dim)
        self.rows: Dict[str, int] = {}

    def lookup(self, names: Sequence[str]) -> torch.Tensor:
        """Rows of the names; names not seen before get the next free row."""
        ids: List[int] = []
        for name in names:
            if name not in self.rows:
                if len(self.rows) >= self.table.num_embeddings:
                    raise IndexError(f"no free row for {name!r}")
                self.rows[name] = len(self.rows)
            ids.append(self.rows[name])
        return torch.tensor(ids, device=self.table.weight.device)

    def forward(self, names: Sequence[str]) -> torch.Tensor:
        return self.table(self.lookup(names))


class TripleScorer(nn.Module):
    """TransE score of (head, relation, tail) triples given by name."""

    def __init__(self, capacity: int = 1000, relations: int = 50, dim: int = 32):
        super().__init__()
        self.entities = EntityEmbedding(capacity, dim)
        self.relations = EntityEmbedding(relations, dim)

    def forward(self, triples: Sequence[Tuple[str, str, str]]) -> torch.Tensor:
        heads, relations, tails = zip(*triples)
        gap = self.entities(heads) + self.relations(relations) - self.entities(tails)
        return -gap.norm(p=1, dim=-1)
