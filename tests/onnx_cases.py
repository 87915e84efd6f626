"""ONNX files in their own runtime, and code of a user to export."""

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

# Rounding in another order, as far as scores go; a decision may differ no further from the threshold.
ROUNDING = 1e-5


class Own(nn.Module):
    """Code of a user: layers that no list knows, and dropout that only training should see."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(1, 4, 2), nn.GroupNorm(2, 4)
        self.scale, self.dropout = nn.Parameter(torch.linspace(0.5, 2, 8)), nn.Dropout(0.5)

    def forward(self, records: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.norm(self.convolution(records[:, None])).flatten(1) * self.scale))


def session_of(content: bytes) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def outputs_of(content: bytes, X: np.ndarray) -> dict[str, np.ndarray]:
    session = session_of(content)
    values = session.run(None, {"records": np.asarray(X, dtype=np.float32)})
    return dict(zip([output.name for output in session.get_outputs()], values, strict=True))


def metadata_of(content: bytes) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}
