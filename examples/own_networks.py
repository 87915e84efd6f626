"""Your own torch networks: a CNN trained by the estimator, and an embedding model in your own loop and optimiser."""

import numpy as np
import torch
from torch import nn

from fairdp import FairDPClassifier, make_private_fair

rng = np.random.default_rng(0)
n = 4_000
group, label = rng.choice(["a", "b"], n), rng.integers(2, size=n)

# Images with a bright upper or lower half.
images = rng.normal(size=(n, 1, 12, 12)).astype(np.float32)
images[label == 1, :, :6] += 0.7
images[label == 0, :, 6:] += 0.7


def cnn() -> nn.Module:
    """No BatchNorm, which would mix records; GroupNorm keeps them apart."""
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten())


seeing = FairDPClassifier(epsilon=2.0, module=cnn, n_steps=150, sample_rate=0.1, max_gap=0.1)
seeing.fit(images, label, sensitive_features=group)
print(f"CNN: accuracy {seeing.score(images, label):.3f}, epsilon {seeing.privacy_.epsilon:.3f}")


class Words(nn.Module):
    """The mean embedding of twelve words out of fifty, given as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.mix = nn.Embedding(50, 8), nn.Linear(8, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Embeddings of texts, shape (n_records, 8)."""
        return torch.tanh(self.mix(self.embedding(codes.long()).mean(1)))


texts = np.where(label[:, None] == 1, rng.integers(0, 35, (n, 12)), rng.integers(15, 50, (n, 12)))
private = make_private_fair(Words(), (texts, label, group), epsilon=2.0, n_steps=200, sample_rate=0.1, method="dpsgd")
optimizer = torch.optim.AdamW(private.parameters(), lr=0.02)
for step in range(private.n_steps):
    private.backward()  # samples every group, clips, adds noise, sets .grad
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: epsilon so far {private.epsilon_spent:.3f}")
reading = private.finish()
print(f"words: accuracy {reading.score(texts.astype(np.float32), label):.3f}")
print(reading.certificate_statement())
