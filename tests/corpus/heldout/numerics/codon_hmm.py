# target: score_genome
# truth: forward multiplies raw probabilities through the whole sequence in float32, underflows to 0 after some 25 codons and log gives -inf for every longer sequence; posterior ratios are then NaN.
"""Score reading frames with a two state codon model against a background."""
import torch

CODONS = 64


class CodonHMM:
    def __init__(self, states, seed, sharpness):
        g = torch.Generator().manual_seed(seed)
        stay = 0.9
        off = (1 - stay) / max(states - 1, 1)
        self.transition = torch.full((states, states), off) + torch.eye(states) * (stay - off)
        self.emission = torch.softmax(sharpness * torch.randn(states, CODONS, generator=g), dim=1)
        self.start = torch.full((states,), 1.0 / states)

    def log_likelihood(self, codons):
        """codons: (batch, length) of int64; returns (batch,)."""
        alpha = self.start * self.emission[:, codons[:, 0]].T
        for t in range(1, codons.shape[1]):
            alpha = (alpha @ self.transition) * self.emission[:, codons[:, t]].T  # error: DG416
        return alpha.sum(dim=1).log()

    def sample(self, batch, length, generator):
        state = torch.multinomial(self.start, batch, True, generator=generator)
        out = []
        for _ in range(length):
            out.append(torch.multinomial(self.emission[state], 1, generator=generator))
            state = torch.multinomial(self.transition[state], 1, generator=generator)[:, 0]
        return torch.cat(out, dim=1)


def gene_posterior(gene, background, codons, prior=0.2):
    a = gene.log_likelihood(codons) + torch.tensor(prior).log()
    b = background.log_likelihood(codons) + torch.tensor(1 - prior).log()
    return torch.sigmoid(a - b)


def score_genome(length=150, batch=16):
    g = torch.Generator().manual_seed(3)
    gene = CodonHMM(2, seed=1, sharpness=1.0)
    background = CodonHMM(2, seed=2, sharpness=0.3)
    true_genes = gene.sample(batch, length, g)
    noise = background.sample(batch, length, g)
    return gene_posterior(gene, background, true_genes), gene_posterior(gene, background, noise)


if __name__ == "__main__":
    genes, rest = score_genome()
    print("genes", genes[:5], "rest", rest[:5])
